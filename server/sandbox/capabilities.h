/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The capabilities that a server that runs as root keeps (capabilities(7)).
 */
#ifndef SERVER_SANDBOX_CAPABILITIES_H
#define SERVER_SANDBOX_CAPABILITIES_H

/*
 * Gives up all capabilities of the calling thread that a running server doesn't need, also for
 * programs that it may start.  Those that it keeps, if it has them:
 *
 * - CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER: images, records of checkpoints, and keys
 *   that belong to other users, which are opened at SIGHUP and when an export is added;
 * - CAP_IPC_LOCK: memory that is registered with io_uring, and that of --swap, beyond ulimit -l.
 *
 * Those of a real-time priority, of --swap and of a port below 1024 have done their work at the
 * start.  Returns 0 or -errno.
 */
int
capabilities_drop(void);

#endif
