/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our servers of an image in Ceph, one after the other: the next one takes the place of the last
 * one as the image's only writer, and only if nobody else has had the image meanwhile, because it
 * carries out again what the last one left unanswered.
 */
#ifndef TOOL_SOURCE_SOURCE_CEPH_H
#define TOOL_SOURCE_SOURCE_CEPH_H

#include "tool/link/server_process.h"
#include "tool/source/source_state.h"

/* The state of a source that is an image, in Ceph or elsewhere. */
struct image_source {
	int fd; /* keeps open the image that the place led to when a server was first started; -1:
		   none yet */
	bool served;      /* once; a later user of the image must not prevent a restart */
	bool fenced;      /* our server, by another client of Ceph, which may have written since: a
			     next one would carry out what the kernel repeats on top of that */
	char *ceph_fence; /* of the next server: the last one, as a client of Ceph that had the
			     image's lock; NULL: none */
	bool renamed;     /* the place is no longer the image's name, and that was logged */
	struct server_process server;
	int supply; /* over which that server gets connections, tool/link/server_supply.h; -1: it
		       has ended, or is another server */
	GString *refusal; /* errors that the server logged while it started; NULL: it runs */
	/* What the present server has told since it was started. */
	bool ready;
	bool locked;   /* another program has a lock on the image */
	bool nameless; /* it has the image's lock, as an unknown client of Ceph */
};

/* Whether our servers take each other's place.  With --force, each of them fences whoever has the
 * image. */
bool
source_ceph_follows(const struct source *source);

/* Asks a server that runs, and told its events to a guard that was killed, which client of Ceph it
 * is, and whether it was fenced.  On failure, what was known stays. */
bool
source_ceph_ask(struct source *source, GError **error);

/*
 * Takes note of what the server tells: that it has taken the image's lock, or given it back, or
 * lost it.  What it could not tell any more is safe: the next server replaces the last known owner.
 * It refuses if anybody else has the lock, or if nobody has it although that owner did not give it
 * back.  The device then ends.
 */
void
source_ceph_take_event(struct source *source, const struct event *event);

#endif
