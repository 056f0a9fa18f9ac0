# SPDX-License-Identifier: BSD-3-Clause
# Included by the Makefile.am of every test directory, after common-rules.mk: how a test is run.
#
# A program is a Check suite; its cases are counted one by one (TAP).  A script is one test: 0 passed,
# 77 skipped for the reason that it printed last, anything else failed.  Each has a time limit.

TEST_EXTENSIONS = .sh
# TEST_LIMIT, which the Makefile.am sets: seconds that one suite or script may take.

LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run-check
SH_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/limit

# What a test finds in its environment (HACKING.md explains each).
AM_TESTS_ENVIRONMENT = \
	srcdir='$(abs_srcdir)'; export srcdir; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	LOOP_PLUGIN='$(abs_top_builddir)/plugins/loop/.libs/nbdkit-loop-plugin.so'; export LOOP_PLUGIN; \
	PATH='$(abs_top_builddir)/wrapper':"$$PATH":/usr/sbin:/sbin; export PATH; \
	NBDLOOP_LIMIT='$(TEST_LIMIT)'; export NBDLOOP_LIMIT; \
	CC='$(CC)'; export CC;
