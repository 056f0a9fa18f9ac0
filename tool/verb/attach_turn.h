/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at attaching an image: no other process may attach the image between the moment in which
 * one finds that it isn't attached and the moment in which it has attached it.  This is not the
 * lock that keeps writers apart (engine/backing/file/lock.h), which the servers take.
 */
#ifndef TOOL_VERB_ATTACH_TURN_H
#define TOOL_VERB_ATTACH_TURN_H

#include <stdbool.h>
#include <sys/stat.h>

struct attach_turn {
	int fd;     /* -1: there is none */
	char *path; /* of the lock file */
};

/*
 * Waits for the turn: `alone`, or together with others that need not be alone.  It is a lock on a
 * file in `directory` that exists only during turns.  If the file cannot be made, this does not
 * wait: then nothing can be attached either.  The turn ends with attach_turn_end() or with the
 * process.
 */
void
attach_turn_take(struct attach_turn *turn, const char *directory, const struct stat *image,
		 bool alone);

void
attach_turn_end(struct attach_turn *turn);

#endif
