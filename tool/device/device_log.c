/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_log.h"

#include "tool/system_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Each read gives one record, until EAGAIN.  EPIPE: records were lost in between. */
static char *
read_log(void)
{
	g_autofree char *path = system_file_path("/dev/kmsg");
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	GString *text = g_string_new(NULL);
	char record[8192];
	ssize_t n;

	while (fd >= 0 && ((n = read(fd, record, sizeof(record))) > 0 ||
			   (n < 0 && (errno == EPIPE || errno == EINTR))))
		g_string_append_len(text, record, MAX(n, 0));
	return g_string_free(text, false);
}

/* A line "LEVEL,NUMBER,MICROSECONDS,FLAGS;TEXT"; others continue the one before. */
static void
device_log_take(const char *line, const char *device, enum device_loss *loss, gint64 *when)
{
	const char *text = strchr(line, ';');
	gint64 time;

	if (!text || sscanf(line, "%*u,%*u,%" SCNi64, &time) != 1 ||
	    !g_str_has_prefix(text + 1, device))
		return;
	text += 1 + strlen(device);
	if (g_str_has_prefix(text, "Receive ")) {
		*loss = DEVICE_LOST;
		*when = time;
	} else if (g_str_equal(text, "shutting down sockets")) {
		*loss = DEVICE_ENDED;
	} else if (g_str_equal(text, "reconnected socket")) {
		*loss = DEVICE_LOSS_UNKNOWN;
	}
}

enum device_loss
device_loss_read(const char *name, gint64 *when)
{
	g_autofree char *device = g_strdup_printf("block %s: ", name), *text = read_log();
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
	enum device_loss loss = DEVICE_LOSS_UNKNOWN;

	for (char **line = lines; *line; line++)
		device_log_take(*line, device, &loss, when);
	return loss;
}
