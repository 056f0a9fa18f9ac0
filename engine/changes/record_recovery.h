/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record that is there when an image is opened: whether its checkpoints are to be trusted, and
 * taken over.
 */
#ifndef ENGINE_CHANGES_RECORD_RECOVERY_H
#define ENGINE_CHANGES_RECORD_RECOVERY_H

struct checkpoints;

/* Takes over the checkpoints of the set's record, if there is one: see checkpoints_keep(). Returns
 * 0, or -errno: the record can't even be opened now, and must not be trusted after that. */
int
recovery_open(struct checkpoints *set);

#endif
