# Ratios of the software provider, from the table that bench_soft prints.
# gnuplot -e "table='soft.tsv'; out='soft.svg'" plot_soft.gp
set terminal svg size 900,380 noenhanced font 'sans,12' background '#ffffff'
set output out
set datafile separator "\t"
set multiplot layout 1,2
set logscale x 2
set xrange [3000:1400000]
set xtics ('4k' 4096, '16k' 16384, '64k' 65536, '256k' 262144, '512k' 524288, '1M' 1048576)
set xlabel 'bytes per message'
set grid ytics
set key outside below horizontal
set title 'one-sided put, against the bare operation'
set ylabel 'bandwidth ratio'
set yrange [0:2]
plot '< grep "^put" '.table using ($3):(stringcolumn(2) eq 'shm' ? $6 : 1/0) with linespoints lw 2 pt 7 title 'shared memory / memcpy', \
	'' using ($3):(stringcolumn(2) eq 'tcp' ? $6 : 1/0) with linespoints lw 2 pt 5 title 'TCP / plain TCP', \
	1 with lines lw 2 lc rgb '#000000' notitle, 0.8 with lines dt 2 lc rgb 'gray40' title '0.8', 0.9 with lines dt 3 lc rgb 'gray40' title '0.9'
set title 'receive buffers, reader copies out'
set ylabel 'bandwidth, one buffer = 1'
set yrange [0:*]
plot '< grep "^buffers" '.table using ($3):(stringcolumn(2) eq '2 buffers' ? $6 : 1/0) with linespoints lw 2 pt 7 title '2 / 1', \
	'' using ($3):(stringcolumn(2) eq '4 buffers' ? $6 : 1/0) with linespoints lw 2 pt 5 title '4 / 1', \
	1 with lines lw 2 lc rgb '#000000' notitle, 1.4 with lines dt 2 lc rgb 'gray40' title '1.4'
unset multiplot
