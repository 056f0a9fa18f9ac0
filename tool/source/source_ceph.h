/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our servers of an image in Ceph, one after the other: the next one takes the place of the last
 * one as the image's only writer, and only if nobody else has had the image meanwhile, because it
 * carries out again what the last one left unanswered.
 */
#ifndef TOOL_SOURCE_SOURCE_CEPH_H
#define TOOL_SOURCE_SOURCE_CEPH_H

#include "tool/source/source_state.h"

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
 * lost it.  What it could not tell any more is safe: the next server takes the place of the last
 * known owner, and if anybody else has the lock, or nobody and that owner did not give it back, it
 * refuses, and the device ends.
 */
void
source_ceph_take_event(struct source *source, const struct event *event);

#endif
