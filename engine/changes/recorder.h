/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The recorder: a thread of an image with a record of its checkpoints. A change that touches
 * something for the first time waits until the recorder has noted it in the record.
 *
 * What a change waits for: its marks are in the page cache of the record's file, where they outlive
 * the process; and its regions are marked on the disk, where that outlives the kernel. Every few
 * seconds the recorder syncs the marks, after which quiet regions are no longer marked. After a
 * power cut, the marks of the last 20 seconds may be missing. So all granules of marked regions
 * count as changed then.
 *
 * Why not another way? A store into a mapped file waits for the disk if its page is being written
 * back or was dropped, on the event loop, and an I/O error is a SIGBUS. With regions alone, as md's
 * bitmap has them, a SIGKILL would cost as much as a power cut, and it is far more common. A disk
 * does only a few hundred fdatasync() per second, too few for one after each mark.
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
