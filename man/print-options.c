/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints rows of options and metrics as POD, for the manuals: those of a place that is named
 * __PLACE__ in a manual. Used by the build only.
 *
 *	print-options MANUAL PLACE
 */
#include "common/option_row.h"
#include "server/config/command_line.h"
#include "server/config/server_config.h"
#include "server/http/metric_rows.h"

#ifdef WITH_PLUGIN
#include "plugins/loop/plugin_config.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(int argc, char **argv)
{
	const struct {
		const char *manual, *place;
		const struct option_row *rows; /* NULL: metrics */
		bool switches;                 /* of a command line */
	} places[] = {
#ifdef WITH_PLUGIN
		{"nbdkit-loop-plugin", "PARAMETERS", loop_option_rows(), false},
#endif
		{"nbdloopd", "COMMAND", command_option_rows, true},
		{"nbdloopd", "SERVER", server_option_rows, true},
		{"nbdloopd", "IMAGE", export_default_rows(), true},
		{"nbdloopd-control", "METRICS", NULL, false},
		{"nbdloopd.conf", "SERVER", server_option_rows, false},
		{"nbdloopd.conf", "EXPORT", export_option_rows(), false},
	};

	for (size_t i = 0; argc == 3 && i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(places[i].manual, argv[1]) != 0 || strcmp(places[i].place, argv[2]) != 0)
			continue;
		if (places[i].rows)
			options_print_pod(stdout, places[i].rows, places[i].switches);
		else
			metric_rows_print_pod(stdout);
		if (fflush(stdout) == 0 && !ferror(stdout))
			return EXIT_SUCCESS;
		perror("print-options");
		return EXIT_FAILURE;
	}
	fprintf(stderr, "usage: print-options MANUAL PLACE\n");
	return EXIT_FAILURE;
}
