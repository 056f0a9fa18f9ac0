/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends the connections of some clients, while others stay.
 */
#ifndef SERVER_EXPORTS_DISCONNECTION_H
#define SERVER_EXPORTS_DISCONNECTION_H

struct exports;

/*
 * Ends the connections of the clients that `clients`, a list of rules (server/access/rule.h),
 * names; with an export's name, only those that use it, or an export of that name that was removed
 * or changed since. Requests that have begun are carried out, but not answered. *ended: how many
 * connections there were. Returns 0, or -errno with *error a sentence (caller frees; NULL: out of
 * memory). Not on a worker's thread.
 */
int
exports_disconnect(struct exports *exports, const char *clients, const char *name,
		   unsigned int *ended, char **error);

/* changing held. Ends the connections to retired snapshots, whose space is wanted back. */
void
exports_end_snapshots(struct exports *exports);

#endif
