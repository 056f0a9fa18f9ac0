/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Naps while something happens that nothing announces: short ones at first, since it usually
 * happens within milliseconds.
 *
 *	struct nap nap = nap_for(1000);
 *
 *	while (!is_gone() && nap_take(&nap))
 *		;
 */
#ifndef TOOL_NAP_H
#define TOOL_NAP_H

#include <glib.h>
#include <stdbool.h>

enum {
	NAP_LEAST_US = 1000,
	NAP_MOST_US = 10000,
};

struct nap {
	gint64 end; /* g_get_monotonic_time() */
	gulong us;  /* of the next nap */
};

static inline struct nap
nap_for(unsigned int milliseconds)
{
	return (struct nap){g_get_monotonic_time() + (gint64)milliseconds * 1000, NAP_LEAST_US};
}

/* False: the time is over. */
static inline bool
nap_take(struct nap *nap)
{
	if (g_get_monotonic_time() >= nap->end)
		return false;
	g_usleep(nap->us);
	nap->us = MIN(2 * nap->us, NAP_MOST_US);
	return true;
}

#endif
