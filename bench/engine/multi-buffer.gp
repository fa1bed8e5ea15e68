# Bandwidth over the size of a receive buffer, for 1, 2, 4 and 7 of them; Geyer et al., figures 4 and 5.
# gnuplot -e "table='results.tsv'; out='multi-buffer.svg'" multi-buffer.gp
set terminal svg size 1000,420 noenhanced font 'sans,12' background '#ffffff'
set output out
set datafile separator "\t"
set multiplot layout 1,2
bytes(x) = (substr(x, strlen(x), strlen(x)) eq 'M' ? 1048576 : 1024) * real(substr(x, 1, strlen(x) - 1))
set logscale x 2
set xrange [3000:5600000]
set xtics ('4k' 4096, '16k' 16384, '64k' 65536, '256k' 262144, '1M' 1048576, '4M' 4194304)
set xlabel 'bytes of a receive buffer'
set ylabel 'GB/s'
set yrange [0:*]
set grid ytics
set key outside below horizontal
rows(test, n) = '< grep "^series	multi-buffer	shm	[^	]*	'.test.', '.n.' buffer" '.table
do for [test in 'throughput consume'] {
	set title test.' test, shared memory'
	plot for [n in '1 2 4 7'] rows(test, n) using (bytes(strcol(4))):($6 / 1000) \
		with linespoints lw 2 pt 7 title n.(n eq '1' ? ' buffer' : ' buffers')
}
unset multiplot
