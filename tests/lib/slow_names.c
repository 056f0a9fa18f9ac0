/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: a slow directory of users.  While the file SLOW_GATE exists, each look-up of a
 * user's name waits; it first makes the file SLOW_GATE.reached.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **found)
{
	__typeof__(&getpwnam_r) real = (__typeof__(&getpwnam_r))dlsym(RTLD_NEXT, "getpwnam_r");
	const char *gate = getenv("SLOW_GATE");
	char reached[4096];

	if (gate && access(gate, F_OK) == 0) {
		snprintf(reached, sizeof(reached), "%s.reached", gate);
		close(open(reached, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	}
	while (gate && access(gate, F_OK) == 0)
		usleep(2000);
	return real(name, entry, buffer, size, found);
}
