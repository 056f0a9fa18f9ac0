/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloopd: serves disk images over NBD.
 */
#include "server/config/command_line.h"
#include "server/daemon/log_target.h"
#include "server/daemon/server.h"
#include "server/serve/probes.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/standard_fds.h"

#include <stdio.h>
#include <string.h>

enum {
	EXIT_USAGE = 2,
};

static int
complain(int r, const char *error)
{
	log_error("%s", error ? error : strerror(-r));
	return EXIT_USAGE;
}

static int
run(const struct command_line *line)
{
	struct server_config config;
	char *CLEANUP_FREE error = NULL;
	int r;

	if (line->help) {
		command_line_print_help();
		return EXIT_SUCCESS;
	}
	if (line->version) {
		printf("nbdloopd %s\nstatic probes: %s\n", PACKAGE_VERSION, PROBES_THERE);
		return EXIT_SUCCESS;
	}
	r = command_line_configure(line, &config, &error);
	if (r < 0)
		return complain(r, error);
	log_target_set(config.log);
	r = server_run(&config, line);
	config_fini(&config);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	struct command_line line;
	char *CLEANUP_FREE error = NULL;
	int r;

	standard_fds_ensure();
	log_target_set(LOG_TO_STDERR);
	r = command_line_parse(&line, argc, argv, &error);
	if (r < 0)
		return complain(r, error);
	r = run(&line);
	command_line_fini(&line);
	return r;
}
