# A technique's variants side by side: bandwidth, CPU and, where it was measured, latency.
# gnuplot -e "table='results.tsv'; technique='merge'; out='merge.svg'" bars.gp
set terminal svg size 1200,560 noenhanced font 'sans,11' background '#ffffff'
set output out
set datafile separator "\t"
set multiplot layout 1,3 title technique
rows = '< grep "^series	'.technique.'	" '.table
set style fill solid 0.7 noborder
set boxwidth 0.7
set xtics rotate by -90 scale 0
set bmargin 17
set yrange [0:*]
set grid ytics
unset key
label(t, x, v) = t.' '.x.' '.v
set ylabel 'MB/s'
plot rows using 0:6:xtic(label(strcol(3), strcol(4), strcol(5))) with boxes
set ylabel 'cores in use'
plot rows using 0:8:xtic(label(strcol(3), strcol(4), strcol(5))) with boxes
# Latency where it was measured, else what the work requests were.
stats rows using 9 nooutput
if (STATS_max > 0) {
	set ylabel 'latency, us (p50, and p99 as a line)'
	set logscale y
	set yrange [*:*]
	plot rows using 0:($9 > 0 ? $9 : 1/0):xtic(label(strcol(3), strcol(4), strcol(5))) with boxes, \
		rows using ($0 - 0.3):($10 > 0 ? $10 : 1/0):(0.6):(0) with vectors nohead lw 3
} else {
	set ylabel 'work requests per message'
	plot rows using 0:11:xtic(label(strcol(3), strcol(4), strcol(5))) with boxes
}
unset multiplot
