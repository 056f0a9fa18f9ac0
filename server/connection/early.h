/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Early data: of a large read, the bytes that are sent while the image still reads the rest.  So
 * the time of the disk and that of the client's line overlap.  Only over TCP: elsewhere there is no
 * line, and the wake-ups for more parts cost more than they gain.
 *
 * Only in structured and extended replies, which consist of several chunks and can report an error
 * after data.  In a simple reply the error is told before the data: a failure after that could only
 * end the connection.
 */
#ifndef SERVER_CONNECTION_EARLY_H
#define SERVER_CONNECTION_EARLY_H

#include <stdbool.h>
#include <stdint.h>

struct request;

/* Bytes of the shortest read that is worth it. */
#define EARLY_READ ((uint64_t)512 << 10)

/* Returns whether the request is a read whose reply may have early data. */
bool
early_is_possible(const struct request *request);

/* Prepares a read that is about to be submitted: its io reports the bytes that have arrived. */
void
early_begin(struct request *request);

/* The io is done: no further early data are sent. */
void
early_end(struct request *request);

#endif
