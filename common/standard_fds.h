/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors 0, 1 and 2, which a program may be started without.
 */
#ifndef COMMON_STANDARD_FDS_H
#define COMMON_STANDARD_FDS_H

/*
 * Opens /dev/null for those that are closed.  First thing in main(): else the next file that is
 * opened, an image perhaps, gets such a number, and messages are written into it.  Aborts when it
 * can't: nothing may be opened then.
 */
void
standard_fds_ensure(void);

#endif
