# What an exchange costs each node over the number of nodes, beside N - 1.
# gnuplot -e "table='nodes.tsv'; out='nodes.svg'" nodes.gp
set terminal svg size 1000,540 noenhanced font 'sans,12' background '#ffffff'
set output out
set datafile separator "\t"
set multiplot layout 1,2
set logscale xy 2
set xrange [1.7:300]
set xtics (2, 4, 8, 16, 32, 64, 128, 256)
set xlabel 'nodes'
set grid ytics
set key outside below horizontal
rows = '< grep "^nodes	[0-9]*	1	" '.table
set title 'messages of a node that sends 4 MB to all'
plot rows using 2:15 with linespoints lw 2 pt 7 title 'work requests', rows using 2:14 with linespoints lw 2 pt 7 title 'slots with rows and ends', \
	rows using 2:18 with linespoints lw 2 pt 7 title 'control messages', rows using 2:4 with linespoints lw 2 pt 7 title 'queue pairs', \
	rows using 2:($2 - 1) with lines dt 2 lc rgb '#808080' title 'N - 1'
set title 'memory of a node, kB'
plot rows using 2:11 with linespoints lw 2 pt 7 title 'send buffers', rows using 2:10 with linespoints lw 2 pt 7 title 'receive buffers', \
	rows using 2:($13 * ($2 - 1)) with linespoints lw 2 pt 7 title 'engine', rows using 2:(256 * ($2 - 1)) with lines dt 2 lc rgb '#808080' title '256 (N - 1)'
unset multiplot
