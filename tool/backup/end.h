/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a copy: an export (export_end.h), a raw file (file_end.h) or a delta file
 * (delta_end.h).
 */
#ifndef TOOL_BACKUP_END_H
#define TOOL_BACKUP_END_H

#include "tool/backup/plan.h"

#include <glib.h>
#include <poll.h>
#include <stdbool.h>

#define END_POLLED_MAX 16 /* descriptors of one end */

enum end_operation {
	END_READ,
	END_WRITE,
	END_ZERO,
	END_SYNC, /* these two are an export's own: */
	END_MAP,
};

/* What a copy asks of an end.  Its owner keeps it until done() was called, or stop(). */
struct end_request {
	enum end_operation operation;
	struct part piece;
	unsigned char *data; /* READ, WRITE: of piece.length bytes */
	/* Takes over *error, which is NULL unless it failed.  May be called before start()
	 * returns. */
	void (*done)(struct end_request *request, GError *error);
};

struct end {
	const struct end_kind *kind;
	char *name;        /* for people: a path or URI */
	uint64_t zero_max; /* bytes that one ZERO may have */
};

struct end_kind {
	void (*start)(struct end *end, struct end_request *request);

	/* Makes all that was written durable. */
	bool (*sync)(struct end *end, GError **error);

	/* NULL, if each request is done when start() returns: writes what to poll for into
	 * `polled` and returns how many that are; */
	int (*prepare)(struct end *end, struct pollfd polled[END_POLLED_MAX]);
	/* carries on after poll(), at least once a second.  Returns false with an error if the
	 * end has failed for good. */
	bool (*turn)(struct end *end, const struct pollfd *polled, int count, GError **error);

	/* NULL, if each request is done when start() returns: forgets all requests.  Then the end
	 * can only be freed. */
	void (*stop)(struct end *end);

	/* NULL: always 0.  How often writes may have been lost that were acknowledged but not
	 * synced: all since the last sync() must be repeated when it has grown. */
	unsigned int (*losses)(const struct end *end);

	void (*free)(struct end *end);
};

/* Frees it, if there is one, and sets the pointer to NULL; requests in flight are forgotten. */
static inline void
end_clear(struct end **end)
{
	if (*end)
		(*end)->kind->free(*end);
	*end = NULL;
}

/* struct end *END_CLEANUP end = NULL; */
#define END_CLEANUP __attribute__((cleanup(end_clear)))

#endif
