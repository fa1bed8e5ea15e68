# What a row costs by density, for four widths: copied out, gathered, as a box, and as chosen.
# gnuplot -e "table='results.tsv'; out='region.svg'" region.gp
set terminal svg size 1400,1200 noenhanced font 'sans,11' background '#ffffff'
set output out
set datafile separator "\t"
set multiplot layout 4,4
set logscale xy
set xrange [0.008:1.2]
set xtics ('0.01' 0.01, '0.1' 0.1, '1' 1)
set ylabel 'ns per row'
set grid
set key outside below horizontal samplen 1
rows(over, layout, width) = sprintf("< grep '^row	%s	%s	%d	' %s", over, layout, width, table)
do for [over in 'shm tcp'] {
	do for [layout in 'strided bitmap'] {
		do for [width in '4 16 64 512'] {
			set title sprintf('%s, %s, %s bytes', over, layout, width)
			plot rows(over, layout, int(width)) using 5:7 with lines lw 2 title 'copy', \
				rows(over, layout, int(width)) using 5:8 with lines lw 2 title 'gather', rows(over, layout, int(width)) using 5:9 with lines lw 2 title 'box', \
				rows(over, layout, int(width)) using 5:10 with points pt 7 ps 0.7 title 'chosen'
		}
	}
}
unset multiplot
