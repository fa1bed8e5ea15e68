# plot.gp: milliseconds per query, logarithmic. gnuplot -e "table='join.tsv'; out='join.svg'; name='...'" plot.gp
set terminal svg size 1200,420 dynamic background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing 'NaN'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border -1
set logscale y
set ylabel 'ms, logarithmic'
set grid ytics
set key top left horizontal
set title name
plot for [i = 2:5] table using i:xtic(1) title columnheader(i)
