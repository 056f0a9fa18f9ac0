/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/neighbours.h"

#include "common/cleanup.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/pattern.h"
#include "tests/nbd/rng.h"

#include <stdlib.h>
#include <string.h>

/* Checks the bytes of one connection; returns true if they are right. */
static bool
own_bytes_stay(struct crew_member *member, unsigned char *buffer, const unsigned char *own,
	       uint64_t offset, uint64_t length, unsigned int round)
{
	ssize_t at;

	if (nbd_pread(member->client, buffer, length, offset, 0) != 0) {
		crew_fail(member, "%s", nbd_get_error());
		return false;
	}
	at = bytes_mismatch(buffer, own, length);
	if (at >= 0)
		crew_fail(member, "round %u: byte at offset %llu is 0x%02x, not 0x%02x", round,
			  (unsigned long long)offset + (unsigned long long)at, buffer[at], own[at]);
	return at < 0;
}

static void
write_rounds(struct crew_member *member)
{
	const struct neighbours *job = member->data;
	uint64_t offset = job->offset + member->index * job->length;
	unsigned char *CLEANUP_FREE own = malloc(job->length);
	unsigned char *CLEANUP_FREE buffer = malloc(job->length);
	struct rng rng;

	rng_init(&rng, job->seed, member->index);
	for (unsigned int round = 0; round < job->rounds && !crew_failed(member); round++) {
		rng_fill(&rng, own, job->length);
		if (nbd_pwrite(member->client, own, job->length, offset, 0) != 0)
			crew_fail(member, "%s", nbd_get_error());
		else
			own_bytes_stay(member, buffer, own, offset, job->length, round);
	}
}

void
neighbours_write(struct neighbours *job)
{
	crew_run(job->server, job->names, job->name_count, job->connections, write_rounds, job,
		 job->seed);
}

/* Trimmed bytes are what they were, or zero; the owner takes what it finds. */
static int
trim_part(struct crew_member *member, unsigned char *own, unsigned char *buffer, uint64_t offset,
	  uint64_t length)
{
	if (nbd_trim(member->client, length, offset, 0) != 0 ||
	    nbd_pread(member->client, buffer, length, offset, 0) != 0)
		return -1;
	for (uint64_t i = 0; i < length; i++)
		if (buffer[i] == 0)
			own[i] = 0;
	return 0;
}

/* Changes a random part of what the member owns.  Returns 0 or -1 (libnbd's error). */
static int
change_part(struct crew_member *member, struct rng *rng, unsigned char *own, unsigned char *buffer,
	    uint64_t offset, uint64_t length)
{
	uint64_t part = 1 + rng_below(rng, length);
	uint64_t skip = rng_below(rng, length - part + 1);

	offset += skip;
	own += skip;
	switch (rng_below(rng, 8)) {
	case 0: memset(own, 0, part); return nbd_zero(member->client, part, offset, 0);
	case 1:
		memset(own, 0, part);
		return nbd_zero(member->client, part, offset, LIBNBD_CMD_FLAG_NO_HOLE);
	case 2: return trim_part(member, own, buffer, offset, part);
	default: rng_fill(rng, own, part); return nbd_pwrite(member->client, own, part, offset, 0);
	}
}

static void
change_rounds(struct crew_member *member)
{
	const struct neighbours *job = member->data;
	uint64_t offset = job->offset + member->index * job->length;
	unsigned char *CLEANUP_FREE own = calloc(1, job->length);
	unsigned char *CLEANUP_FREE buffer = malloc(job->length);
	struct rng rng;

	rng_init(&rng, job->seed, member->index);
	if (nbd_pwrite(member->client, own, job->length, offset, 0) != 0)
		crew_fail(member, "%s", nbd_get_error());
	for (unsigned int round = 0; round < job->rounds && !crew_failed(member); round++) {
		if (change_part(member, &rng, own, buffer, offset, job->length) != 0)
			crew_fail(member, "%s", nbd_get_error());
		else
			own_bytes_stay(member, buffer, own, offset, job->length, round);
	}
}

void
neighbours_change(struct neighbours *job)
{
	crew_run(job->server, job->names, job->name_count, job->connections, change_rounds, job,
		 job->seed);
}

/*
 * In the bytes that a pair shares, the values of the writer of whole blocks have the top bit clear
 * (zero and trim leave such bytes, too); the other's have it set.
 */
struct shared_part {
	uint64_t offset, length;      /* all of it */
	uint64_t inner, inner_length; /* where both write, from `offset` */
};

static struct shared_part
shared_part(const struct crew_member *member)
{
	const struct neighbours *job = member->data;
	uint64_t block = job->length;

	return (struct shared_part){
		.offset = job->offset + member->index / 2 * 4 * block,
		.length = 4 * block,
		.inner = block + block / 3,
		.inner_length = block,
	};
}

/* Makes one request on all of the shared bytes; *value is their value afterwards. */
static int
outer_change(struct crew_member *member, const struct shared_part *part, unsigned int round,
	     unsigned char *buffer, unsigned char *value)
{
	switch (round % 5) {
	case 1:
		*value = 0;
		return nbd_zero(member->client, part->length, part->offset,
				LIBNBD_CMD_FLAG_NO_HOLE);
	case 3: *value = 0; return nbd_zero(member->client, part->length, part->offset, 0);
	default:
		*value = (unsigned char)(1 + round % 127);
		memset(buffer, *value, part->length);
		return nbd_pwrite(member->client, buffer, part->length, part->offset, 0);
	}
}

static void
outer_rounds(struct crew_member *member, unsigned int rounds)
{
	struct shared_part part = shared_part(member);
	unsigned char *CLEANUP_FREE buffer = malloc(part.length);

	for (unsigned int round = 0; round < rounds && !crew_failed(member); round++) {
		unsigned char value;
		/* Every fifth change is followed by a trim, which leaves the value or zero. */
		bool trim = round % 5 == 4;

		if (outer_change(member, &part, round, buffer, &value) != 0 ||
		    (trim && nbd_trim(member->client, part.length, part.offset, 0) != 0) ||
		    nbd_pread(member->client, buffer, part.length, part.offset, 0) != 0) {
			crew_fail(member, "%s", nbd_get_error());
			return;
		}
		for (uint64_t i = 0; i < part.length; i++) {
			if (i - part.inner < part.inner_length || buffer[i] == value ||
			    (trim && buffer[i] == 0))
				continue;
			crew_fail(
				member,
				"round %u: byte %llu around the other's part is 0x%02x, not 0x%02x",
				round, (unsigned long long)i, buffer[i], value);
			return;
		}
	}
}

static void
inner_rounds(struct crew_member *member, unsigned int rounds)
{
	struct shared_part part = shared_part(member);
	unsigned char *CLEANUP_FREE buffer = malloc(part.inner_length);

	for (unsigned int round = 0; round < rounds && !crew_failed(member); round++) {
		unsigned char value = (unsigned char)(0x80 | round % 128);

		memset(buffer, value, part.inner_length);
		if (nbd_pwrite(member->client, buffer, part.inner_length, part.offset + part.inner,
			       0) != 0 ||
		    nbd_pread(member->client, buffer, part.inner_length, part.offset + part.inner,
			      0) != 0) {
			crew_fail(member, "%s", nbd_get_error());
			return;
		}
		for (uint64_t i = 0; i < part.inner_length; i++) {
			if (buffer[i] == value || buffer[i] < 0x80)
				continue;
			crew_fail(member, "round %u: byte %llu is an older 0x%02x, not 0x%02x",
				  round, (unsigned long long)i, buffer[i], value);
			return;
		}
	}
}

static void
overlap_rounds(struct crew_member *member)
{
	const struct neighbours *job = member->data;

	if (member->index % 2)
		inner_rounds(member, job->rounds);
	else
		outer_rounds(member, job->rounds);
}

void
neighbours_overlap(struct neighbours *job)
{
	crew_run(job->server, job->names, job->name_count, job->connections, overlap_rounds, job,
		 job->seed);
}
