/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/coverage.h"

#include <stdio.h>
#include <stdlib.h>

char *coverage_seen;

void
coverage_begin(void)
{
	coverage_seen = calloc((size_t)(etext - __executable_start), 1);
}

void
coverage_write(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f) {
		perror(path);
		exit(2);
	}
	for (char *at = __executable_start; at < etext; at++) {
		if (coverage_seen[at - __executable_start])
			fprintf(f, "%lx\n", (unsigned long)at);
	}
	fclose(f);
}
