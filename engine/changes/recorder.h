/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder: a thread of an image with a record of its checkpoints. A change that touches
 * something for the first time waits until the recorder has noted it in the record.
 *
 * What a change waits for: its marks are in the page cache of the record's file, where they outlive
 * the process; and its regions are marked on the disk, where that outlives the kernel. Every few
 * seconds the recorder syncs the marks, after which quiet regions are no longer marked. So after a
 * power cut, what was touched first in the last 20 seconds may be missing among the marks, and all
 * granules of the regions where it may be count as changed.
 */
#ifndef ENGINE_CHANGES_RECORDER_H
#define ENGINE_CHANGES_RECORDER_H

struct checkpoints;
struct range;

/* Starts the thread, unless it runs. Returns 0 or -errno. */
int
recorder_start(struct checkpoints *set);

/* Ends the thread, if it runs. No change waits for it. */
void
recorder_stop(struct checkpoints *set);

/* Gives a change to the recorder, which releases it. Never waits. */
void
recorder_give(struct checkpoints *set, struct range *range);

/* The work that the thread does every few seconds. */
void
recorder_tick(struct checkpoints *set);

#endif
