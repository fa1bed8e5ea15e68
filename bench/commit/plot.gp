# plot.gp: transfers per second. gnuplot -e "table='commit.tsv'; out='commit.svg'" plot.gp
set terminal svg size 1100,480 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing 'NaN'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border -1
set grid ytics
set yrange [0:*]
set key outside below horizontal
set xtics rotate by -20
set title 'Transfers over nodes that wrote, by numbers of clients, fsync on'
set ylabel 'transfers per second'
plot for [i = 2:4] table using i:xtic(1) title columnheader(i)
