# SPDX-License-Identifier: BSD-3-Clause
# The environment of a test; tests/README.md explains each variable.  ASAN_OPTIONS: gcc 12's runtime
# guesses, by the address of a loaded library's thread-local memory, that there is a header before
# it, and crashes in the search for leaks if it guesses wrong.
AM_TESTS_ENVIRONMENT = \
	srcdir='$(abs_srcdir)'; export srcdir; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	LOOP_PLUGIN='$(abs_top_builddir)/plugins/loop/nbdkit-loop-plugin.so'; export LOOP_PLUGIN; \
	PATH='$(abs_top_builddir)/wrapper':"$$PATH":/usr/sbin:/sbin; export PATH; \
	NBDLOOP_LIMIT='$(TEST_LIMIT)'; export NBDLOOP_LIMIT; \
	ASAN_OPTIONS=intercept_tls_get_addr=0$${ASAN_OPTIONS:+:$$ASAN_OPTIONS}; export ASAN_OPTIONS; \
	TSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/tsan.supp'; export TSAN_OPTIONS; \
	CC='$(CC)'; export CC;
