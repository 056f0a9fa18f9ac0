/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints rows of options and metrics as POD, for the manuals: those of a place that is named
 * __PLACE__ in a manual.
 * Used by the build only.
 *
 *	print-options PROGRAM PLACE
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

#ifdef WITH_PLUGIN
static void
print_plugin(void)
{
	options_print_pod(stdout, loop_option_rows());
}
#endif

static void
print_command(void)
{
	options_print_switches_pod(stdout, command_option_rows);
}

static void
print_server_options(void)
{
	options_print_switches_pod(stdout, server_option_rows);
}

static void
print_image(void)
{
	options_print_switches_pod(stdout, export_default_rows());
}

static void
print_server_of_file(void)
{
	options_print_pod(stdout, server_option_rows);
}

static void
print_export_of_file(void)
{
	options_print_pod(stdout, export_option_rows());
}

static void
print_metrics(void)
{
	metric_rows_print_pod(stdout);
}

static const struct {
	const char *manual, *place;
	void (*print)(void);
} places[] = {
#ifdef WITH_PLUGIN
	{"nbdkit-loop-plugin", "PARAMETERS", print_plugin},
#endif
	{"nbdloopd", "COMMAND", print_command},
	{"nbdloopd", "SERVER", print_server_options},
	{"nbdloopd", "IMAGE", print_image},
	{"nbdloopd", "METRICS", print_metrics},
	{"nbdloopd.conf", "SERVER", print_server_of_file},
	{"nbdloopd.conf", "EXPORT", print_export_of_file},
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(places[i].manual, argv[1]) != 0 || strcmp(places[i].place, argv[2]) != 0)
			continue;
		places[i].print();
		if (fflush(stdout) == 0 && !ferror(stdout))
			return EXIT_SUCCESS;
		perror("print-options");
		return EXIT_FAILURE;
	}
	fprintf(stderr, "usage: print-options MANUAL PLACE\n");
	return EXIT_FAILURE;
}
