# Lost attempts per claim; SMART, figure 9.
# gnuplot -e "table='results.tsv'; out='backoff.svg'" backoff.gp
set terminal svg size 700,420 noenhanced font 'sans,12' background '#ffffff'
set output out
set datafile separator "\t"
set style fill solid 0.7 noborder
set boxwidth 0.6
set yrange [0:*]
set grid ytics
set xtics scale 0
unset key
set title 'lost attempts per claim'
short(s) = strstrt(s, 'immediate') ? 'immediate'.s[strstrt(s, ', 1') + strstrt(s, ', 3'):*] : 'backoff'.s[strstrt(s, ', 1') + strstrt(s, ', 3'):*]
plot '< grep "^row	backoff" '.table.' | grep "lost attempts"' using 0:5:xtic(short(strcol(4))) with boxes
