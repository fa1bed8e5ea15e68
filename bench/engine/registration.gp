# Bandwidth over the size of a value that is copied to the buffers or sent from memory that is registered for it; RDMAbox, figure 5.
# gnuplot -e "table='results.tsv'; out='registration.svg'" registration.gp
set terminal svg size 1000,760 noenhanced font 'sans,12' background '#ffffff'
set output out
set datafile separator "\t"
set multiplot layout 2,2
bytes(x) = (substr(x, strlen(x), strlen(x)) eq 'M' ? 1048576 : 1024) * real(substr(x, 1, strlen(x) - 1))
set logscale x 2
set xrange [50000:22000000]
set xtics ('64k' 65536, '256k' 262144, '1M' 1048576, '4M' 4194304, '16M' 16777216)
set xlabel 'bytes of a value'
set ylabel 'GB/s'
set yrange [0:*]
set grid ytics
set key outside below horizontal
rows(over, kind, way) = '< grep "^series	registration	'.over.'	[^	]*	'.kind.', '.way.'" '.table
do for [over in 'shm tcp'] {
	do for [kind in 'once stream'] {
		set title (kind eq 'once' ? 'each value once, ' : 'one stream of many, ').(over eq 'shm' ? 'shared memory' : 'TCP')
		plot for [way in 'copied registered automatic'] rows(over, kind, way) using (bytes(strcol(4))):($6 / 1000) \
			with linespoints lw 2 pt 7 title way
	}
}
unset multiplot
