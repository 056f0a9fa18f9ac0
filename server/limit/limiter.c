/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/limit/limiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The least portion, by limit_kind. With a smaller one, a large request under a small limit would
 * wait for very many. */
static const uint64_t least[LIMIT_KINDS] = {[LIMIT_IOPS] = 1, [LIMIT_BANDWIDTH] = 4096};

int
limiter_new(struct limiter **limiter, const struct limits *limits, uint64_t begun)
{
	*limiter = NULL;
	if (!limits_rates_any(limits))
		return 0;
	*limiter = aligned_alloc(alignof(struct limiter), sizeof(**limiter));
	if (!*limiter)
		return -ENOMEM;
	memset(*limiter, 0, sizeof(**limiter));
	atomic_init(&(*limiter)->users, 1);
	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		const struct limit_rate *rate = &limits->rates[kind];
		const uint64_t rates[2] = {rate->both ? rate->both : rate->read, rate->write};

		(*limiter)->both[kind] = rate->both != 0;
		for (unsigned int i = 0; i < 2; i++) {
			if (rates[i])
				budget_init(&(*limiter)->budgets[kind][i], rates[i], rate->burst,
					    least[kind], begun);
		}
	}
	return 0;
}

struct limiter *
limiter_hold(struct limiter *limiter)
{
	if (limiter)
		atomic_fetch_add_explicit(&limiter->users, 1, memory_order_relaxed);
	return limiter;
}

void
limiter_release(struct limiter *limiter)
{
	if (limiter && atomic_fetch_sub_explicit(&limiter->users, 1, memory_order_acq_rel) == 1)
		free(limiter);
}

bool
limiter_is_rested(const struct limiter *limiter, uint64_t now)
{
	for (unsigned int kind = 0; limiter && kind < LIMIT_KINDS; kind++) {
		for (unsigned int i = 0; i < 2; i++) {
			const struct budget *budget = &limiter->budgets[kind][i];

			if (budget->portion && !budget_is_rested(budget, now))
				return false;
		}
	}
	return true;
}

struct budget *
limiter_budget(struct limiter *limiter, enum limit_kind kind, unsigned int write)
{
	struct budget *budget = &limiter->budgets[kind][limiter->both[kind] ? 0 : write];

	return budget->portion ? budget : NULL;
}
