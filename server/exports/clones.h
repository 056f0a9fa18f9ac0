/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clones of an export with clone=: temporary clones of its image, one for each connection, or
 * for each client. Nobody uses the export itself, whose image is open for reading only.
 *
 *	a client looks for the export, and has no clone yet
 *	-> the thread of looks makes one, listed as NAME@OWNER: clones_make()
 *	-> the client finds it instead of the export, and joins it: clones_find()
 *	the last connection to it has ended
 *	-> that of a connection is removed (exports_expire()), and that of a client stays
 *	the export is removed
 *	-> its clones are removed from the list, and their clients stay
 *
 * A clone has the rules and limits of its origin, and no client finds it by its own name.
 */
#ifndef SERVER_EXPORTS_CLONES_H
#define SERVER_EXPORTS_CLONES_H

#include "server/exports/exports.h"

/* mutex held. Whose clone of the export the applicant gets; NULL: it gets the export itself. */
const char *
clones_owner(struct applicant *applicant, const struct export *export);

/* mutex held. The offer of that clone; NULL: there is none. */
struct offer *
clones_find(const struct exports *exports, const struct export *origin, const char *owner);

/* changing held. Makes a clone, unless there is one already. Logs a failure. */
void
clones_make(struct exports *exports, struct export *origin, const char *owner);

#endif
