/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/background.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

static void
background_to_syslog(enum log_level level, const char *text)
{
	static const int priorities[] = {
		[LOG_LEVEL_ERROR] = LOG_ERR,
		[LOG_LEVEL_WARNING] = LOG_WARNING,
		[LOG_LEVEL_INFO] = LOG_INFO,
		[LOG_LEVEL_DEBUG] = LOG_DEBUG,
	};

	syslog(priorities[level], "%s", text);
}

void
background_enter(void)
{
	int CLEANUP_CLOSE null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	if (chdir("/") < 0 || null < 0)
		return;
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	openlog("nbdloop", LOG_PID, LOG_DAEMON);
	log_set_sink(background_to_syslog);
}
