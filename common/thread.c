/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/thread.h"

#include <signal.h>

int
thread_start(pthread_t *thread, void *(*run)(void *data), void *data)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(thread, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}
