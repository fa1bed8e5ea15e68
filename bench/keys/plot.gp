# plot.gp: ratios of few local keys and of UPDATE over nodes to what one would do without them.
# gnuplot -e "table='keys.tsv'; out='keys.svg'" plot.gp
set terminal svg size 1100,520 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing 'NaN'
set style data histograms
set style fill solid 0.9 border -1
set grid ytics
set yrange [0:*]
set xtics rotate by -20
set bmargin 9
set rmargin 26
set title 'Time as a multiple of the other way'
set ylabel 'ratio'
set key off
plot table using 2:xtic(1), 1 with lines lw 2 lc rgb '#000000'
