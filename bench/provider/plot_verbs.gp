# plot_verbs.gp: ratios of verbs.tsv. gnuplot -e "table='verbs.tsv'; out='verbs.svg'" plot_verbs.gp
set terminal svg size 640,440 noenhanced background "white"
set output out
set datafile separator "\t"
set title "verbs provider against ib_write_bw or plain verbs, soft-RoCE under emulation"
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set xlabel "message size, bytes"
set ylabel "bandwidth, ratio"
set yrange [0:*]
set key outside below horizontal
set grid ytics
plot table using 4:xtic(1) every ::1 title "write", "" using 6 every ::1 title "chains of 16", "" using 9 every ::1 title "with immediate, against plain verbs", 0.9 with lines dt 2 lc rgb "black" title "target", 1 with lines lw 2 lc rgb "black" notitle
