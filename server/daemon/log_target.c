/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/log_target.h"

#include "common/log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

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

/* It knows who we are, and takes a number at the start of the line for the priority (sd-daemon(3)).
 */
static void
to_journal(enum log_level level, const char *text)
{
	fprintf(stderr, "<%d>%s%s\n", priorities[level], prefixes[level], text);
}

static void
to_syslog(enum log_level level, const char *text)
{
	syslog(priorities[level], "%s%s", prefixes[level], text);
}

/* systemd says which device and inode the journal's end is. */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(2, &st) == 0 &&
	       st.st_dev == device && st.st_ino == inode;
}

void
log_target_set(enum log_choice choice)
{
	if (choice == LOG_TO_SYSLOG) {
		openlog("nbdloopd", LOG_PID, LOG_DAEMON);
		log_set_sink(to_syslog);
	} else {
		log_set_sink(stderr_is_journal() ? to_journal : to_stderr);
	}
}
