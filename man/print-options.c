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
		void (*print)(FILE *out, const struct option_row *rows);
		const struct option_row *rows; /* NULL: metrics */
	} places[] = {
#ifdef WITH_PLUGIN
		{"nbdkit-loop-plugin", "PARAMETERS", options_print_pod, loop_option_rows()},
#endif
		{"nbdloopd", "COMMAND", options_print_switches_pod, command_option_rows},
		{"nbdloopd", "SERVER", options_print_switches_pod, server_option_rows},
		{"nbdloopd", "IMAGE", options_print_switches_pod, export_default_rows()},
		{"nbdloopd", "METRICS", NULL, NULL},
		{"nbdloopd.conf", "SERVER", options_print_pod, server_option_rows},
		{"nbdloopd.conf", "EXPORT", options_print_pod, export_option_rows()},
	};

	for (size_t i = 0; argc == 3 && i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(places[i].manual, argv[1]) != 0 || strcmp(places[i].place, argv[2]) != 0)
			continue;
		if (places[i].rows)
			places[i].print(stdout, places[i].rows);
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
