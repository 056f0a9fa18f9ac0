/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at attaching an image: a process that looks whether the image is attached already, and
 * attaches it if not, must be alone with it meanwhile.  Not the lock that keeps writers apart
 * (engine/image/lock.h), which the servers take.
 */
#ifndef TOOL_VERB_ATTACH_TURN_H
#define TOOL_VERB_ATTACH_TURN_H

#include <stdbool.h>
#include <sys/stat.h>

struct attach_turn {
	int fd;     /* -1: there is none */
	char *path; /* of the file that it is about */
};

/*
 * Waits for the turn, `alone` or together with others that need not be alone, by a lock on a file
 * in `directory` that exists only meanwhile.  If the file cannot be made, it does not wait: then
 * nothing can be attached either.  The turn ends with attach_turn_end() or with the process.
 */
void
attach_turn_take(struct attach_turn *turn, const char *directory, const struct stat *image,
		 bool alone);

void
attach_turn_end(struct attach_turn *turn);

#endif
