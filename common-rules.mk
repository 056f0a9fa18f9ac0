# SPDX-License-Identifier: BSD-3-Clause
# Included by every Makefile.am: how all C files are compiled.

AM_CPPFLAGS = -I$(top_srcdir) -I$(top_builddir) -D_GNU_SOURCE -include $(top_builddir)/config.h
# The plugin and the module are shared objects, so that all is compiled for them.
AM_CFLAGS = -std=gnu11 -pthread -fPIC -fvisibility=hidden $(WARNING_CFLAGS) $(SANITIZER_CFLAGS)
AM_LDFLAGS = -pthread $(SANITIZER_CFLAGS)
# For shared objects; last, since the user may say LDFLAGS=-pie.
link_shared = $(LINK) -shared

# What programs link, each library before those that it uses.  The folders of server and tool name
# their own libraries without a path, so that make knows how they are made.
engine_link = $(top_builddir)/engine/libengine.a $(top_builddir)/common/libcommon.a $(LIBURING_LIBS)
option_link = $(top_builddir)/server/liboptions.a $(top_builddir)/server/liblimits.a
server_needs = \
	$(top_builddir)/nbd/libnbdtls.a \
	$(top_builddir)/nbd/libnbdproto.a \
	$(top_builddir)/control/libcontrol.a \
	$(engine_link) \
	$(SECCOMP_LIBS)
server_link = \
	$(top_builddir)/server/libnbdloopd.a \
	$(top_builddir)/server/libserver.a \
	$(option_link) \
	$(server_needs)
tool_needs = \
	$(top_builddir)/engine/libengine.a \
	$(top_builddir)/nbd/libnbdtls.a \
	$(top_builddir)/nbd/libnbdproto.a \
	$(top_builddir)/server/liblimits.a \
	$(top_builddir)/common/libcommon.a \
	$(TOOL_LIBS)
tool_link = $(top_builddir)/tool/libverbs.a $(tool_needs)
