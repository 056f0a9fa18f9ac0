# SPDX-License-Identifier: BSD-3-Clause
# The figures of 2026-11-22.md: for each server the median, the lowest and the highest of five runs.
# To draw it again: gnuplot sequential-1m.gnuplot
$data << EOD
"read\ndepth 1" 909.115 728.76 927.99 817.889 678.429 891.29 359.662 344.981 365.953 631.243 508.559 743.44 692.06 553.648 740.295 1399.85 1271.92 1749.02
"read\ndepth 8" 1278.21 890.241 1600.13 1422.92 1179.65 1535.12 567.28 488.636 682.623 1145.05 977.273 1307.57 1296.04 1027.6 1505.76 1398.8 1334.84 1639.97
"write\ndepth 8" 1906.31 1762.66 1994.39 1986 1787.82 2035.29 329.253 262.144 375.39 1684.01 1183.84 1725.96 857.735 664.797 921.698 1708.13 1472.2 1876.95
EOD
set terminal svg size 960,420 dynamic background rgb 'white' font 'sans,13' noenhanced
set output 'sequential-1m.svg'
set title '1 MiB sequential requests over one connection'
set ylabel 'MB/s'
set yrange [0:*]
set bmargin 3
set grid ytics
set style data histograms
set style histogram errorbars gap 2 linewidth 1
set style fill solid 0.9 border -1
set boxwidth 0.9
set datafile missing '?'
set key outside right Left reverse
set xrange [-0.6:2.6]
plot $data using 2:3:4:xtic(1) title 'nbdloopd' linecolor rgb '#1b6ca8', \
     $data using 5:6:7 title 'the plugin in nbdkit' linecolor rgb '#57a0d3', \
     $data using 8:9:10 title 'nbdkit file' linecolor rgb '#c9772b', \
     $data using 11:12:13 title 'nbdkit preadv' linecolor rgb '#e3b78a', \
     $data using 14:15:16 title 'qemu-nbd' linecolor rgb '#7a7a7a', \
     $data using 17:18:19 title 'raw (no server)' linecolor rgb '#c8c8c8'
