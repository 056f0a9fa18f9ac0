# SPDX-License-Identifier: BSD-3-Clause
# The figures of 2026-11-22.md: for each server the median, the lowest and the highest of five runs.
# To draw it again: gnuplot random-4k.gnuplot
$data << EOD
"read\ndepth 1" 9.931 8.902 11.129 6.959 5.942 7.964 7.153 5.914 8.094 7.22 6.27 7.73 9.497 7.204 10.497 13.185 9.162 14.742
"read\ndepth 32" 59.161 50.366 68.115 58.226 51.93 62.146 48.647 40.279 51.791 49.542 47.986 59.976 48.58 43.682 57.718 92.084 85.86 92.899
"read\ndepth 128" 82.641 74.097 111.859 56.534 41.358 60.726 50.452 43.776 53.378 61.628 59.068 66.256 51.721 40.523 59.181 106.194 93.859 115.866
"write\ndepth 32" 30.275 21.978 30.728 29.827 22.865 29.906 51.712 48.842 61.672 28.196 25.169 29.76 26.887 25.194 27.659 35.949 26.16 36.025
EOD
set terminal svg size 960,420 dynamic background rgb 'white' font 'sans,13' noenhanced
set output 'random-4k.svg'
set title '4 KiB random requests over one connection'
set ylabel 'thousand per second'
set yrange [0:*]
set bmargin 3
set grid ytics
set style data histograms
set style histogram errorbars gap 2 linewidth 1
set style fill solid 0.9 border -1
set boxwidth 0.9
set datafile missing '?'
set key outside right Left reverse
set xrange [-0.6:3.6]
plot $data using 2:3:4:xtic(1) title 'nbdloopd' linecolor rgb '#1b6ca8', \
     $data using 5:6:7 title 'the plugin in nbdkit' linecolor rgb '#57a0d3', \
     $data using 8:9:10 title 'nbdkit file' linecolor rgb '#c9772b', \
     $data using 11:12:13 title 'nbdkit preadv' linecolor rgb '#e3b78a', \
     $data using 14:15:16 title 'qemu-nbd' linecolor rgb '#7a7a7a', \
     $data using 17:18:19 title 'raw (no server)' linecolor rgb '#c8c8c8'
