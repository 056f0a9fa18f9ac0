/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/sandbox/apparmor.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The kernel's answer: "unconfined", or "PROFILE (MODE)", with a newline. */
bool
apparmor_find(struct apparmor *found)
{
	/* Not attr/current, which may be that of another security module. */
	int CLEANUP_CLOSE fd = open("/proc/self/attr/apparmor/current", O_RDONLY | O_CLOEXEC);
	char text[APPARMOR_NAME_MAX + sizeof(found->mode)];
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *mode;

	if (length <= 0)
		return false;
	text[length] = '\0';
	mode = strrchr(text, '(');
	if (!mode || mode == text || mode[-1] != ' ')
		return false;
	mode[-1] = '\0';
	mode++;
	mode[strcspn(mode, ")\n")] = '\0';
	snprintf(found->profile, sizeof(found->profile), "%.*s", APPARMOR_NAME_MAX - 1, text);
	snprintf(found->mode, sizeof(found->mode), "%.*s", (int)sizeof(found->mode) - 1, mode);
	return true;
}
