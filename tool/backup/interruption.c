/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/interruption.h"

#include "tool/failure.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t seen;

static void
interruption_note(int number)
{
	seen = number;
}

void
interruption_watch(void)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
	struct sigaction action = {.sa_handler = interruption_note, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	/* A write beyond RLIMIT_FSIZE fails (EFBIG), and what is unfinished is cleaned up. */
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&action.sa_mask);
	for (guint i = 0; i < G_N_ELEMENTS(numbers); i++) {
		/* What nohup, or a shell for a command in the background, ignores stays ignored. */
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

bool
interruption_seen(void)
{
	return seen;
}

bool
interruption_check(GError **error)
{
	return !seen || failure(error, EINTR, "interrupted by SIG%s", sigabbrev_np(seen));
}

void
interruption_end(void)
{
	sigset_t one;

	if (!seen)
		return;
	signal(seen, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, seen);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	raise(seen);
}
