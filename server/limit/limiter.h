/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A limiter: the budgets of one export, which its connections share; or those of one client of an
 * export.
 */
#ifndef SERVER_LIMIT_LIMITER_H
#define SERVER_LIMIT_LIMITER_H

#include "server/limit/budget.h"
#include "server/limit/limits.h"

#include <stdbool.h>

struct limiter {
	/* By limit_kind, for reads (0) and writes (1); if the limit is for both together, only the
	 * first is in use. A portion of 0: no limit. */
	struct budget budgets[LIMIT_KINDS][2];
	bool both[LIMIT_KINDS];
	_Atomic unsigned int users;
};

/* Held once. `begun`: as in budget_init(). *limiter is NULL if there is no limit. 0 or -ENOMEM.
 */
int
limiter_new(struct limiter **limiter, const struct limits *limits, uint64_t begun);

/* Any thread; NULL is fine. */
struct limiter *
limiter_hold(struct limiter *limiter);
void
limiter_release(struct limiter *limiter);

/* Returns whether it is as a new one that has a burst. NULL is fine: it is. */
bool
limiter_is_rested(const struct limiter *limiter, uint64_t now);

/* Which budget reads or writes use; NULL: no limit. */
struct budget *
limiter_budget(struct limiter *limiter, enum limit_kind kind, unsigned int write);

#endif
