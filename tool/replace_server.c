/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop replace-server: a new process of the server takes over an attached device, as after an upgrade of the
 * program.
 */
#include "tool/failure.h"
#include "tool/guard.h"
#include "tool/our_device.h"
#include "tool/server_link.h"
#include "tool/server_process.h"
#include "tool/verb.h"

#include "common/log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum {
	TRIES = 600, /* of 100 ms: what the old server has begun is carried out to its end */
	TRY_US = 100000,
};

static const struct option_row rows[] = {{.name = NULL}};

static const struct verb_usage usage = {
	.synopsis = "DEVICE",
	.summary = "Lets a new process of nbdloopd serve a device, while it is used, and returns when that serves it.",
	.rows = rows,
	.least = 1,
	.most = 1,
};

/* 0: it doesn't answer, or the kernel isn't connected to it yet. */
static pid_t
serving_pid(const struct our_device *ours)
{
	g_autoptr(JsonObject) status = server_link_ask(ours->control, "status", NULL);
	JsonArray *connections = status ? json_object_get_array_member(status, "connections") : NULL;

	if (!connections || json_array_get_length(connections) == 0)
		return 0;
	return (pid_t)json_object_get_int_member(status, "pid");
}

/* The one that will be started: better to see here that it can't be. */
static bool
program_works(GError **error)
{
	g_autofree char *program = server_process_program();
	const char *argv[] = {program, "--version", NULL};
	g_autofree char *said = NULL;
	g_autoptr(GError) why = NULL;
	int status = 0;

	if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &said, &status, &why))
		return failure(error, ENOEXEC, "the server stays: the new one can't be started: %s", why->message);
	if (status != 0)
		return failure(error, ENOEXEC, "the server stays: the new one, %s, doesn't work: %s", program, g_strstrip(said));
	return true;
}

static bool
replace(const struct our_device *ours, GError **error)
{
	const char *name = ours->device->name;
	pid_t before = serving_pid(ours), guard = guard_of(ours->control);

	if (!program_works(error))
		return false;
	if (guard <= 0 || kill(guard, SIGHUP) < 0)
		return failure(error, errno, "/dev/%s has nobody any more who would start a new server; detach it and attach it again",
			       name);
	for (unsigned int i = 0; i < TRIES; i++) {
		pid_t now = serving_pid(ours);

		if (now != 0 && now != before)
			return true;
		g_usleep(TRY_US);
	}
	return failure(error, ETIMEDOUT, "/dev/%s has no new server after a minute.  It is being tried further, and what is written waits; "
		       "the system log has the reasons", name);
}

int
verb_replace_server(int argc, char **argv)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	g_autoptr(GError) error = NULL;
	enum verb_parsed parsed;
	char **operands;
	int count;

	parsed = verb_parse(&usage, NULL, argc, argv, &operands, &count);
	if (parsed != VERB_PARSED)
		return verb_exit_status(parsed);
	if (our_device_find_served(&ours, operands[0], &error) && replace(&ours, &error))
		return EXIT_SUCCESS;
	log_error("%s", error->message);
	return EXIT_FAILURE;
}
