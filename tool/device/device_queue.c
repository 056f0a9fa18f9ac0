/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_queue.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

/* Linux 6.12 has this by itself; 6.1's driver would cut requests into pieces of 128 KiB. */
#define LARGEST_REQUEST_KIB "1280"
/* One operation of the server's: it has memory for that in any case. */
#define LARGEST_SWAP_REQUEST_KIB "128"

/* g_file_set_contents() would replace the file. */
static bool
write_setting(const char *name, const char *setting, const char *value)
{
	g_autofree char *path = g_build_filename("/sys/block", name, "queue", setting, NULL);
	int CLEANUP_CLOSE fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value))
		return true;
	log_warning("%s can't be set to %s: %s; the device works, but may be slower", path, value,
		    g_strerror(errno));
	return false;
}

void
device_queue_tune(const char *name, bool swap)
{
	/* One warning is enough where /sys is read-only. */
	if (write_setting(name, "scheduler", "none"))
		write_setting(name, "max_sectors_kb",
			      swap ? LARGEST_SWAP_REQUEST_KIB : LARGEST_REQUEST_KIB);
}

void
device_queue_set_timeout(const char *name, unsigned int milliseconds)
{
	g_autofree char *value = g_strdup_printf("%u", milliseconds);

	write_setting(name, "io_timeout", value);
}

void
device_queue_set_timeout_later(const char *name, unsigned int milliseconds)
{
	pid_t child = fork();

	if (child < 0)
		log_warning("%s: no process to change its queue: %s", name, g_strerror(errno));
	if (child > 0)
		waitpid(child, NULL, 0);
	if (child != 0)
		return;
	/* The grandchild runs on its own, and keeps none of the caller's files open. */
	if (fork() == 0) {
		closelog();
		close_range(STDERR_FILENO + 1, ~0U, 0);
		device_queue_set_timeout(name, milliseconds);
	}
	_exit(0);
}
