/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work of all images in Ceph that has its time, or that waits for the cluster: a queue of jobs,
 * and the only threads.
 *
 * One thread of the process keeps the queue, and carries out what never waits. Every other job gets
 * a thread while it runs: librbd's calls wait for as long as the cluster is away, and nobody can
 * take one back. So a cluster that is away delays no deadline, no other job, and no other image.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_WORKER_H
#define ENGINE_BACKING_CEPH_RBD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

struct rbd_job {
	void (*run)(struct rbd_job *job);
	bool waits;          /* for the cluster, perhaps */
	unsigned int *count; /* of such jobs that have not ended, for a job that runs once and may
				be freed by run(); NULL: it may run again */

	/* rbd_worker.c's. */
	bool queued, runs;
	int64_t due; /* clock_ms() */
	struct rbd_job *next;
};

/* Every open image joins before its first job, and leaves after its last one. Returns 0 or -errno.
 */
int
rbd_worker_join(void);
void
rbd_worker_leave(void);

/* Has a job run in `ms` milliseconds, or as soon as it was to run already; if it runs now, it runs
 * again after that, never twice at a time. Without a thread to be had, it runs later. Never waits.
 */
void
rbd_job_add(struct rbd_job *job, unsigned int ms);

/* Takes a job out of the queue, after it has ended. Only the job itself may still add it. */
void
rbd_job_end(struct rbd_job *job);

/* Waits until all jobs of a count have ended. */
void
rbd_jobs_await(const unsigned int *count);

#endif
