# scaling.gp: how many times as fast as one node without workers, by workers.
# gnuplot -e "table='scaling.tsv'; out='scaling.svg'; name='...'" scaling.gp
set terminal svg size 900,520 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing 'NaN'
set key outside below horizontal
set grid
set title name
set xlabel 'parallel workers of each server'
set ylabel 'times as fast as one node without workers'
set yrange [0:]
plot for [i = 2:5] table using 1:i with linespoints lw 2 title columnheader(i)
