/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is called when something that was under way is complete.
 */
#ifndef ENGINE_COMPLETION_H
#define ENGINE_COMPLETION_H

/* Embedded in what is under way. */
struct completion {
	/* Called once; `result` is a count, 0, or -errno.  May start something new. */
	void (*done)(struct completion *completion, int result);
};

#endif
