# plot.gp: milliseconds per query, logarithmic. gnuplot -e "table='fdw.tsv'; out='fdw.svg'" plot.gp
set terminal svg size 1100,420 dynamic background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border -1
set logscale y
set ylabel 'ms, logarithmic'
set grid ytics
set key top left horizontal
set title 'TPC-H on one data node'
plot for [i = 2:4] table using i:xtic(1) title columnheader(i)
