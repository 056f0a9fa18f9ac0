/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * systemd's watchdog (WatchdogSec=, sd_watchdog_enabled(3)): a thread that asks all event loops and
 * the main thread for a sign again and again, and tells systemd that the server is alive when all
 * have given one. One that gives none is named in the log, and systemd then ends the server. A loop
 * that has nothing to do is woken four times in WatchdogSec; requests cost nothing.
 */
#ifndef SERVER_DAEMON_WATCHDOG_H
#define SERVER_DAEMON_WATCHDOG_H

#include <stdint.h>

struct watchdog;
struct worker;

/* Starts to watch `count` workers, which run, and the main thread. `interval_us`: microseconds
 * after which systemd gives the server up, see readiness_watchdog(). `wake`: an eventfd that wakes
 * the main thread up. Returns 0 or -errno. */
int
watchdog_start(struct watchdog **watchdog, struct worker *workers, unsigned int count, int wake,
	       uint64_t interval_us);

/* The main thread's sign, in each turn of its loop. NULL is fine, here and below. */
void
watchdog_main_turned(struct watchdog *watchdog);

/* Watches no longer; before the workers end. */
void
watchdog_stop(struct watchdog *watchdog);

/* When it is stopped and no worker runs any more. */
void
watchdog_free(struct watchdog *watchdog);

#endif
