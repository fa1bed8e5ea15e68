# plot.gp: milliseconds of one join over ever more nodes, by how its rows move.
# gnuplot -e "table='many.tsv'; out='many.svg'; name='...'" plot.gp
set terminal svg size 900,520 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing 'NaN'
set key outside below horizontal
set grid
set title name
set logscale x 2
set xlabel 'nodes, logarithmic'
set ylabel 'ms'
set yrange [0:]
plot for [i = 2:4] table using 1:i with linespoints lw 2 title columnheader(i)
