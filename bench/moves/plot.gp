# plot.gp: how long statements took while nodes came and went.
# gnuplot -e "longest='longest.tsv'; steps='steps.tsv'; out='moves.svg'" plot.gp
set terminal svg size 1100,480 dynamic noenhanced background '#ffffff' font 'sans,12'
set output out
set datafile separator "\t"
set datafile missing ''
stats steps using 1 every ::1 nooutput
start = STATS_min
stats longest using 2 nooutput
top = STATS_max
set grid
set yrange [0:*]
set key outside below horizontal
set title 'The longest transaction that began in each tenth of a second'
set xlabel 'seconds'
set ylabel 'milliseconds'
plot longest using 1:2 with impulses lw 2 lc rgb '#3366aa' title 'transfers', \
	longest using 1:3 with points pt 7 ps 0.4 lc rgb '#33aa66' title 'lookups', \
	longest using 1:4 with points pt 7 ps 0.5 lc rgb '#aa3333' title 'sums of all rows', \
	steps using (($1 - start) / 1000):(top):3 every ::1 with labels left rotate by -90 notitle
