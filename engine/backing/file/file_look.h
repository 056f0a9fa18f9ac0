/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What has come up since a file or device was opened: .look() of its kind. Nobody tells us of these
 * changes, so the table's user asks when a client connects, or when the user says so.
 */
#ifndef ENGINE_BACKING_FILE_FILE_LOOK_H
#define ENGINE_BACKING_FILE_FILE_LOOK_H

#include "engine/backing/backing.h"
#include "engine/backing/kind.h"

/* See struct backing_kind. */
void
file_look(const struct backing *backing, struct backing_look *look);

/* At the opening: notes what the later looks are compared with. `by_name`: the path is that of the
 * file, for this process. */
void
file_look_prepare(struct backing *backing, bool by_name);

#endif
