/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the option rows of a verb of nbdloop as POD, for its manual.  Used by the build only.
 *
 *	print-tool-options nbdloop VERB
 */
#include "tool/verb/verb.h"

#include <stdio.h>
#include <stdlib.h>

int
main(int argc, char **argv)
{
	g_autofree char *name = argc == 3 ? g_ascii_strdown(argv[2], -1) : NULL;
	const struct verb *verb = name ? verb_find(name) : NULL;

	if (verb && verb->rows) {
		options_print_pod(stdout, verb->rows, true);
		if (fflush(stdout) == 0 && !ferror(stdout))
			return EXIT_SUCCESS;
		perror("print-tool-options");
		return EXIT_FAILURE;
	}
	fprintf(stderr, "usage: print-tool-options nbdloop VERB\n");
	return EXIT_FAILURE;
}
