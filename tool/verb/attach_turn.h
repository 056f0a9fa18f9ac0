/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is to attach an image: who looks whether it is attached already, and attaches it if
 * it isn't, must be alone with it meanwhile.  Not the lock that keeps writers apart
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
 * Waits for the turn, `alone` or together with others that aren't, with a file in `directory` that
 * is there only meanwhile. Where there can be no such file, it waits for nobody: then nothing can
 * be attached either.  Ended by attach_turn_end(), or with the process.
 */
void
attach_turn_take(struct attach_turn *turn, const char *directory, const struct stat *image,
		 bool alone);

void
attach_turn_end(struct attach_turn *turn);

#endif
