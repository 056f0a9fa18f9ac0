# SPDX-License-Identifier: BSD-3-Clause
# Included after test-rules.mk by the Makefile.am of a test directory whose suites `make
# check-valgrind' runs. VALGRIND_SUITE (yes or no) says whether valgrind watches the suite itself,
# or the servers that it starts (wrapper/). The servers' reports go to files; their lines begin with
# "==".

check-valgrind-local:
	@test -n '$(VALGRIND)' || { echo 'valgrind was not found (Debian package: valgrind)' >&2; exit 1; }
	rm -f valgrind-*.log
	NBDLOOP_VALGRIND='$(VALGRIND)' NBDLOOP_VALGRIND_SUITE=$(VALGRIND_SUITE) NBDLOOP_VALGRIND_LOGS='$(abs_builddir)' \
		NBDLOOP_TIME_FACTOR="$${NBDLOOP_TIME_FACTOR:-20}" $(MAKE) $(AM_MAKEFLAGS) check-am
	@if cat valgrind-*.log 2>/dev/null | grep '^==' >&2; then \
		echo 'valgrind found errors in a server' >&2; \
		exit 1; \
	fi

CLEANFILES = valgrind-*.log *.tap *.out
