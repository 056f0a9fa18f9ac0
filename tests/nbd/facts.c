/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/facts.h"

#include <stdio.h>
#include <stdlib.h>

const char *
facts_plugin(void)
{
	const char *path = getenv("LOOP_PLUGIN");

	return path && *path ? path : "loop";
}

const char *
facts_nbdkit(void)
{
	const char *path = getenv("NBDKIT");

	return path && *path ? path : "nbdkit";
}

char *
facts_read(void)
{
	char command[4096];
	char *facts = NULL;
	size_t capacity = 0;
	FILE *out;

	snprintf(command, sizeof(command), "'%s' '%s' --dump-plugin", facts_nbdkit(),
		 facts_plugin());
	out = popen(command, "re");
	if (!out || getdelim(&facts, &capacity, '\0', out) < 0 || pclose(out) != 0) {
		fprintf(stderr, "failed: %s\n", command);
		free(facts);
		facts = NULL;
	}
	return facts;
}
