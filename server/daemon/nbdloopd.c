/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloopd, which serves disk images over NBD: the process, and where its messages go.
 */
#include "server/config/command_line.h"
#include "server/daemon/launcher.h"
#include "server/daemon/readiness.h"
#include "server/daemon/server.h"
#include "server/sandbox/sandbox.h"
#include "server/request/probes.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/standard_fds.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

enum {
	EXIT_USAGE = SERVER_MISCONFIGURED,
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

/* The messages from here on, which are less important, do not go to standard error. */
static enum log_level silent_from = LOG_LEVEL_DEBUG;

static void
to_stderr(enum log_level level, const char *text)
{
	if (level < silent_from)
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

/* With --fork: standard error is given up when the server is ready. */
static void
nbdloopd_to_both(enum log_level level, const char *text)
{
	to_stderr(level, text);
	syslog(priorities[level], "%s%s", prefixes[level], text);
}

static bool
stderr_is_file(void)
{
	struct stat st;

	return fstat(2, &st) == 0 && S_ISREG(st.st_mode);
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
log_target_set(enum log_choice choice, bool detached)
{
	if (choice == LOG_TO_SYSLOG) {
		openlog("nbdloopd", LOG_PID, LOG_DAEMON);
		log_set_sink(detached ? nbdloopd_to_both : nbdloopd_to_syslog);
	} else {
		log_set_sink(stderr_is_journal() ? to_journal : to_stderr);
	}
}

/* ---- the process */

/* The command of ExecReload= runs beside the server, whose $MAINPID systemd tells it. systemctl
 * status is to show what is wrong, and that nothing has changed. */
static void
nbdloopd_tell_reload_failed(const char *why)
{
	char *CLEANUP_FREE error = NULL;

	if (getenv("MAINPID") && readiness_init(&error) == 0 && readiness_wanted())
		readiness_reload_failed(why);
}

/* Returns `status`. */
static int
nbdloopd_complain(const struct command_line *line, int r, const char *error, int status)
{
	const char *why = error ? error : strerror(-r);

	log_error("%s", why);
	if (line->check_config)
		nbdloopd_tell_reload_failed(why);
	return status;
}

/* Adds to the error how to make the first configuration, if there is none yet. */
static void
nbdloopd_explain_no_config(const char *path, char **error)
{
	char *text = NULL;

	if (!path || !*error || access(path, F_OK) == 0 || errno != ENOENT ||
	    asprintf(&text, "%s; to begin with an example: cp %s %s", *error, EXAMPLE_CONFIGURATION,
		     path) < 0)
		return;
	free(*error);
	*error = text;
}

/* --check-config. Returns the process's status. */
static int
nbdloopd_check(const struct command_line *line, const struct server_config *config)
{
	char *CLEANUP_FREE error = NULL;
	int r = server_check(config, &error);

	return r < 0 ? nbdloopd_complain(line, r, error, server_status_of(r)) : EXIT_SUCCESS;
}

/* Serves, or waits for the server and its command. Returns the process's status. */
static int
nbdloopd_serve(struct command_line *line, struct server_config *config)
{
	char *CLEANUP_FREE error = NULL;
	int status = EXIT_FAILURE;
	int r = launcher_start(line, config, &status, &error);

	if (r > 0)
		return status;
	if (r < 0)
		log_error("%s", error ? error : strerror(-r));
	else
		status = server_run(config, line);
	if (status != EXIT_SUCCESS && last_error[0])
		to_stderr(LOG_LEVEL_ERROR, last_error);
	return status;
}

static int
nbdloopd_run(struct command_line *line)
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
	/* Messages stay in a file, and in the journal, for which nobody waits. */
	line->detached = line->fork && !stderr_is_file() && !stderr_is_journal();
	r = command_line_configure(line, &config, &error);
	if (r < 0) {
		nbdloopd_explain_no_config(line->config, &error);
		return nbdloopd_complain(line, r, error, EXIT_USAGE);
	}
	if (line->detached || line->run)
		silent_from = LOG_LEVEL_INFO;
	/* Whoever checks the configuration reads the errors at once. */
	log_target_set(line->check_config ? LOG_TO_STDERR : config.log, line->detached);
	config_warn(&config);
	if (line->check_config)
		r = nbdloopd_check(line, &config);
	else
		r = nbdloopd_serve(line, &config);
	config_fini(&config);
	return r;
}

int
main(int argc, char **argv)
{
	struct command_line line;
	char *CLEANUP_FREE error = NULL;
	int r;

	standard_fds_ensure();
	log_target_set(LOG_TO_STDERR, false);
	sandbox_explain_denials();
	r = command_line_parse(&line, argc, argv, &error);
	if (r < 0)
		return nbdloopd_complain(&line, r, error, EXIT_USAGE);
	r = nbdloopd_run(&line);
	command_line_fini(&line);
	return standard_output_end(r);
}
