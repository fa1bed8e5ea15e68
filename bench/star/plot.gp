# plot.gp: milliseconds per query, logarithmic, and rdma_fdw's as a multiple of one node's.
# gnuplot -e "table='star.tsv'; out='star.svg'; name='...'" plot.gp
set terminal svg size 1200,720 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing 'NaN'
set multiplot layout 2,1
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border -1
set logscale y
set grid ytics
set key outside below horizontal
set title name.': time'
set ylabel 'ms, logarithmic'
plot for [i = 2:3] table using i:xtic(1) title columnheader(i)
set title 'rdma_fdw as a multiple of one node (below 1: faster)'
set ylabel 'ratio, logarithmic'
plot table using (column('rdma_fdw') / column(3)):xtic(1) title 'to one node' lc 2, \
	1 with lines lw 2 lc rgb '#000000' notitle
unset multiplot
