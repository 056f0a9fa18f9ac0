/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/intake.h"

#include <stdlib.h>
#include <string.h>

bool
intake_init(struct intake *intake)
{
	intake->bytes = malloc(INTAKE_SIZE);
	return intake->bytes != NULL;
}

void
intake_fini(struct intake *intake)
{
	free(intake->bytes);
}

void
intake_compact(struct intake *intake)
{
	memmove(intake->bytes, intake->bytes + intake->start, intake_length(intake));
	intake->end -= intake->start;
	intake->start = 0;
}

struct request *
intake_drop(struct intake *intake)
{
	size_t there = intake_length(intake);
	size_t n = intake->to_drop < there ? (size_t)intake->to_drop : there;

	intake->start += n;
	intake->to_drop -= n;
	return intake->to_drop > 0 ? NULL : steal_pointer(&intake->refused);
}

void
intake_fill(struct intake *intake, struct request *request, char *rest, size_t missing)
{
	intake->filling = request;
	intake->rest = rest;
	intake->missing = missing;
}
