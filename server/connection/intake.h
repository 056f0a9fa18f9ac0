/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection has received and not taken yet, and where the next bytes go: into the input, or
 * the payload of a large write straight into the buffer of its request.
 *
 * A large write begins only when its last byte has come. Otherwise a client that vanishes would
 * leave a torn write. And the range of the whole write would be held as long as the client likes:
 * other clients' changes would wait for it.
 */
#ifndef SERVER_CONNECTION_INTAKE_H
#define SERVER_CONNECTION_INTAKE_H

#include "common/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

/* Most bytes in one receive: a batch of requests. */
#define INTAKE_SIZE ((size_t)64 << 10)

struct intake {
	uint8_t *bytes; /* INTAKE_SIZE; owned */
	size_t start, end;
	uint64_t to_drop;        /* bytes to come of a refused request's payload */
	struct request *refused; /* that request, answered after its payload; or NULL */
	struct request *filling; /* its payload is received straight into its buffer; or NULL */
	char *rest;              /* where the rest of that payload goes */
	size_t missing;          /* bytes of it */
};

/* False: out of memory. */
bool
intake_init(struct intake *intake);

void
intake_fini(struct intake *intake);

/* Bytes in the input. */
static inline size_t
intake_length(const struct intake *intake)
{
	return intake->end - intake->start;
}

/* An incomplete request moves to the front. */
void
intake_compact(struct intake *intake);

/* Where the next bytes are to be received, and how many at most. *all: not fewer, if possible. */
static inline void *
intake_room(struct intake *intake, size_t *size, bool *all)
{
	*all = intake->filling != NULL;
	if (*all) {
		*size = intake->missing;
		return intake->rest;
	}
	if (intake->start > 0)
		intake_compact(intake);
	*size = INTAKE_SIZE - intake->end;
	return intake->bytes + intake->end;
}

/* So many were received there. Returns the request whose payload is complete by that, or NULL. */
static inline struct request *
intake_add(struct intake *intake, size_t length)
{
	if (!intake->filling) {
		intake->end += length;
		return NULL;
	}
	intake->rest += length;
	intake->missing -= length;
	return intake->missing > 0 ? NULL : steal_pointer(&intake->filling);
}

/* The next bytes in the input are taken. */
static inline void
intake_take(struct intake *intake, size_t length)
{
	intake->start += length;
}

/* Drops what it can of a refused request's payload. Returns the request if all of it is dropped
 * now. */
struct request *
intake_drop(struct intake *intake);

/* The rest of a payload is received into the request's buffer: `missing` bytes to `rest`. */
void
intake_fill(struct intake *intake, struct request *request, char *rest, size_t missing);

/* An input that is empty begins at its front again. */
static inline void
intake_rewind(struct intake *intake)
{
	if (intake->start == intake->end)
		intake->start = intake->end = 0;
}

#endif
