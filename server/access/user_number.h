/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbers of users and groups.  A look-up may ask a server of the network: it must not run on
 * an event loop.
 */
#ifndef SERVER_ACCESS_USER_NUMBER_H
#define SERVER_ACCESS_USER_NUMBER_H

#include <stdint.h>

/* Return 0; -ENOENT: there is no such name; or another -errno. */
int
user_number(const char *name, uint32_t *uid);
int
group_number(const char *name, uint32_t *gid);

#endif
