/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The function to call when an operation in flight is complete.
 */
#ifndef ENGINE_COMPLETION_H
#define ENGINE_COMPLETION_H

/* Embedded in the operation. */
struct completion {
	/* Called once. `result` is a count of bytes, 0, or -errno. May start new operations. */
	void (*done)(struct completion *completion, int result);
};

#endif
