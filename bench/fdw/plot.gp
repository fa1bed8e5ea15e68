# plot.gp: milliseconds per query, logarithmic, and rdma_fdw's as a multiple of the others'. gnuplot -e "table='fdw.tsv'; out='fdw.svg'" plot.gp
set terminal svg size 1100,720 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set multiplot layout 2,1
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border -1
set logscale y
set grid ytics
set key outside below horizontal
set title 'TPC-H on one data node: time'
set ylabel 'ms, logarithmic'
plot for [i = 2:4] table using i:xtic(1) title columnheader(i)
set title 'rdma_fdw as a multiple of the others (below 1: faster)'
set ylabel 'ratio, logarithmic'
set style histogram clustered gap 2
plot table using (column('rdma_fdw') / column('postgres_fdw')):xtic(1) title 'to postgres_fdw' lc 2, \
	'' using (column('rdma_fdw') / column('local')) title 'to local tables' lc 3, \
	1 with lines lw 2 lc rgb '#000000' notitle
unset multiplot
