/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the option rows of a verb of nbdloop as POD, for its manual.  Used by the build only.
 *
 *	print-tool-options nbdloop PLACE
 */
#include "tool/table/attach_options.h"
#include "tool/verb/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *place;
	const struct option_row *rows;
} places[] = {
	{"ATTACH", attach_option_rows}, {"DETACH", detach_option_rows},
	{"LIST", list_option_rows},     {"SET", set_option_rows},
	{"START", start_option_rows},   {"STATUS", status_option_rows},
	{"STOP", stop_option_rows},
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(places[i].place, argv[2]) != 0)
			continue;
		options_print_switches_pod(stdout, places[i].rows);
		if (fflush(stdout) == 0 && !ferror(stdout))
			return EXIT_SUCCESS;
		perror("print-tool-options");
		return EXIT_FAILURE;
	}
	fprintf(stderr, "usage: print-tool-options nbdloop PLACE\n");
	return EXIT_FAILURE;
}
