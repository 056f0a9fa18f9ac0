/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The claim of a server that writes to an image: that nothing in this machine's kernel uses it,
 * which no lock would keep away.  A block device is claimed for good, as file systems do it
 * (O_EXCL); a file can only be looked at.
 */
#ifndef ENGINE_IMAGE_CLAIM_H
#define ENGINE_IMAGE_CLAIM_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"

#include <stdbool.h>

/*
 * Claims the backing for a server with these options, before it takes its lock: .fd is opened anew,
 * without the locks that it had.  `locked`: it has one that must stay, and another descriptor has
 * the claim.  A read-only server claims nothing, and warns of who writes.  Returns 0, or -EBUSY
 * with *error a sentence that names the user and the way out (caller frees).
 */
int
claim_take(struct backing *backing, const struct image_config *config, bool writable, bool locked,
	   char **error);

/* Gives the claim back; again is fine. */
void
claim_drop(struct backing *backing);

#endif
