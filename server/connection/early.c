/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/early.h"

#include "server/access/identity.h"
#include "server/connection/conn.h"

bool
early_is_possible(const struct request *request)
{
	return request->nbd.type == NBD_CMD_READ && request->part_count == 0 &&
	       conn_of(request)->identity->kind == IDENTITY_INET &&
	       request->queue->session.form != NBD_FORM_SIMPLE &&
	       !(request->nbd.flags & NBD_CMD_FLAG_DF);
}

/* Adds those bytes to the ones that are there from the beginning, if they are adjacent now. */
static bool
early_take_later(struct request_early *early)
{
	for (unsigned int i = 0; i < early->gap_count; i++) {
		if (early->after_gap[i].start != early->there)
			continue;
		early->there = early->after_gap[i].end;
		early->after_gap[i] = early->after_gap[--early->gap_count];
		return true;
	}
	return false;
}

/* Chunks may arrive in any order.  If there are too many after a gap, the rest of the read is sent
 * when it is complete. */
static void
early_arrived(struct io *io, uint64_t start, uint64_t bytes)
{
	struct request *request = request_of_io(io);
	struct request_early *early = &request->early;

	if (start != early->there) {
		if (early->gap_count < EARLY_GAPS)
			early->after_gap[early->gap_count++] =
				(struct early_span){(uint32_t)start, (uint32_t)(start + bytes)};
		return;
	}
	early->there += (uint32_t)bytes;
	while (early_take_later(early))
		;
	if (outbox_unsent(request) < OUTBOX_EARLY)
		return;
	outbox_add_early(&conn_of(request)->outbox, request);
	conn_mark_dirty(conn_of(request));
}

void
early_begin(struct request *request)
{
	request->early = (struct request_early){.there = 0};
	request->io.arrived = early_arrived;
}

void
early_end(struct request *request)
{
	outbox_remove_early(&conn_of(request)->outbox, request);
}
