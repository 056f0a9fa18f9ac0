/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloopd, which serves disk images over NBD: the process, and where its messages go.
 */
#include "server/config/command_line.h"
#include "server/daemon/server.h"
#include "server/sandbox/sandbox.h"
#include "server/request/probes.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/standard_fds.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

enum {
	EXIT_USAGE = 2,
};

/* ---- where messages go */

static const int priorities[] = {
	[LOG_LEVEL_ERROR] = LOG_ERR,
	[LOG_LEVEL_WARNING] = LOG_WARNING,
	[LOG_LEVEL_INFO] = LOG_INFO,
	[LOG_LEVEL_DEBUG] = LOG_DEBUG,
};

static const char *const prefixes[] = {
	[LOG_LEVEL_ERROR] = "error: ",
	[LOG_LEVEL_WARNING] = "warning: ",
	[LOG_LEVEL_INFO] = "",
	[LOG_LEVEL_DEBUG] = "debug: ",
};

static void
to_stderr(enum log_level level, const char *text)
{
	if (level != LOG_LEVEL_DEBUG)
		fprintf(stderr, "nbdloopd: %s%s\n", prefixes[level], text);
}

/* The journal knows our name, and takes a number at the start of a line as its priority
 * (sd-daemon(3)). */
static void
to_journal(enum log_level level, const char *text)
{
	fprintf(stderr, "<%d>%s%s\n", priorities[level], prefixes[level], text);
}

/* The last error that went to the system log: whoever started the server may not read that. */
static char last_error[512];
static pthread_mutex_t last_error_lock = PTHREAD_MUTEX_INITIALIZER;

static void
nbdloopd_to_syslog(enum log_level level, const char *text)
{
	if (level == LOG_LEVEL_ERROR) {
		pthread_mutex_lock(&last_error_lock);
		snprintf(last_error, sizeof(last_error), "%s", text);
		pthread_mutex_unlock(&last_error_lock);
	}
	syslog(priorities[level], "%s%s", prefixes[level], text);
}

/* systemd tells the device and inode of the journal's socket. */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(2, &st) == 0 &&
	       st.st_dev == device && st.st_ino == inode;
}

static void
log_target_set(enum log_choice choice)
{
	if (choice == LOG_TO_SYSLOG) {
		openlog("nbdloopd", LOG_PID, LOG_DAEMON);
		log_set_sink(nbdloopd_to_syslog);
	} else {
		log_set_sink(stderr_is_journal() ? to_journal : to_stderr);
	}
}

/* ---- the process */

static int
nbdloopd_complain(int r, const char *error)
{
	log_error("%s", error ? error : strerror(-r));
	return EXIT_USAGE;
}

static int
nbdloopd_run(const struct command_line *line)
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
		return nbdloopd_complain(r, error);
	log_target_set(config.log);
	config_warn(&config);
	r = line->check_config ? 0 : server_run(&config, line);
	if (r < 0 && last_error[0])
		to_stderr(LOG_LEVEL_ERROR, last_error);
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
	sandbox_explain_denials();
	r = command_line_parse(&line, argc, argv, &error);
	if (r < 0)
		return nbdloopd_complain(r, error);
	r = nbdloopd_run(&line);
	command_line_fini(&line);
	return standard_output_end(r);
}
