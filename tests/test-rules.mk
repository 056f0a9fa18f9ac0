# SPDX-License-Identifier: BSD-3-Clause
# Included by the Makefile.am of every test directory, after common-rules.mk: how a test is run.
#
# A program is a Check suite; its cases are counted one by one (TAP).  A script is one test: 0
# passed, 77 skipped for the reason that it printed last, anything else failed.  Each has a time
# limit.

TEST_EXTENSIONS = .sh
# TEST_LIMIT, which each Makefile.am sets: seconds that one suite or script may take.

LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/run-check
SH_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/limit

include $(top_srcdir)/tests/test-environment.mk

# As `make check' in this directory, but only the tests whose turn it is ($NBDLOOP_TURN, see
# in-turn), of whose programs only theirs are built.
in_turn = $(SHELL) $(top_srcdir)/tests/in-turn '$(TESTS)'
check-in-turn:
	@tests=`$(in_turn) $(TESTS)` && programs=`$(in_turn) $(check_PROGRAMS)` || exit; \
	test -z "$$tests" || $(MAKE) $(AM_MAKEFLAGS) check-am TESTS="$$tests" check_PROGRAMS="$$programs"
# The same for those that ./check leaves out.
check-long-in-turn:
	$(MAKE) $(AM_MAKEFLAGS) check-in-turn TESTS='$(long_tests)'
.PHONY: check-in-turn check-long-in-turn
