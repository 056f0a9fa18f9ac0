# SPDX-License-Identifier: BSD-3-Clause
# The figures of 2026-11-22.md: for each server the median, the lowest and the highest of five runs.
# To draw it again: gnuplot server-cpu.gnuplot
$data << EOD
"4 KiB\nread\ndepth 1" 39.2 38.4 40.3 72.2 68.3 78.9 71.6 65.5 74.4 68.8 66.8 71.4 52.6 47.9 55.6 ? ? ?
"4 KiB\nread\ndepth 32" 4.44 4.33 5.34 17.4 17.1 19.4 24.3 18 30.5 17.6 15.4 21.5 12.8 11.2 17.2 ? ? ?
"4 KiB\nread\ndepth 128" 4.58 4.03 6.9 22.1 18.1 30.4 23.2 22 27.9 19.6 15.2 20.3 11.7 10.7 12.1 ? ? ?
"4 KiB\nwrite\ndepth 32" 4.09 4.04 5.3 15.9 15.1 17.9 12 9.87 13.6 14.4 13.1 16.8 10.5 9.79 11.7 ? ? ?
"1 MiB\nread\ndepth 1" 248 241 265 567 506 649 2620 2581 2745 580 521 646 488 450 570 ? ? ?
"1 MiB\nread\ndepth 8" 182 131 734 511 473 748 2065 1512 2615 495 456 532 508 475 583 ? ? ?
"1 MiB\nwrite\ndepth 8" 157 140 211 371 366 382 3346 2832 4323 380 341 385 674 629 712 ? ? ?
EOD
set terminal svg size 960,420 dynamic background rgb 'white' font 'sans,11' noenhanced
set output 'server-cpu.svg'
set title 'CPU time of the server for one request'
set ylabel 'microseconds (logarithmic)'
set logscale y
set yrange [2:6000]
set bmargin 4
set grid ytics
set style data histograms
set style histogram errorbars gap 2 linewidth 1
set style fill solid 0.9 border -1
set boxwidth 0.9
set datafile missing '?'
set key outside right Left reverse
set xrange [-0.6:6.6]
plot $data using 2:3:4:xtic(1) title 'nbdloopd' linecolor rgb '#1b6ca8', \
     $data using 5:6:7 title 'the plugin in nbdkit' linecolor rgb '#57a0d3', \
     $data using 8:9:10 title 'nbdkit file' linecolor rgb '#c9772b', \
     $data using 11:12:13 title 'nbdkit preadv' linecolor rgb '#e3b78a', \
     $data using 14:15:16 title 'qemu-nbd' linecolor rgb '#7a7a7a'
