/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/worker_state.h"

#include "common/clock.h"
#include "common/log.h"

#include <string.h>

uint64_t
worker_clock(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

/* Whatever the error, the news that the event stands for must not be lost. */
void
worker_poll_failed(struct worker *worker, int result)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);

	worker->unpolled = true;
	if (log_limit_pass(&limit, NULL))
		log_error("event loop: an event can't be waited for: %s; trying again",
			  strerror(-result));
}
