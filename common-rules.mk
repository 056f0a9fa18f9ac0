# SPDX-License-Identifier: BSD-3-Clause
# Included by every Makefile.am: how all C files are compiled.

AM_CPPFLAGS = -I$(top_srcdir) -I$(top_builddir) -D_GNU_SOURCE -include $(top_builddir)/config.h
AM_CFLAGS = -std=gnu11 -pthread -fvisibility=hidden $(WARNING_CFLAGS) $(SANITIZER_CFLAGS)
AM_LDFLAGS = -pthread $(SANITIZER_CFLAGS)
