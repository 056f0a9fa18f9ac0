/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop replace-server: replaces the server process of an attached device, for example after an
 * upgrade of the program.
 */
#include "tool/failure.h"
#include "tool/link/server_command.h"
#include "tool/verb/our_device.h"
#include "tool/verb/verb.h"

#include <errno.h>

/* Checks the program before the old server is ended. */
static bool
program_works(enum server_kind kind, GError **error)
{
	g_autofree char *program = server_command_program(kind);
	const char *argv[] = {program, "--version", NULL};
	g_autofree char *said = NULL;
	g_autoptr(GError) why = NULL;
	int status = 0;

	if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL,
			  &said, &status, &why))
		return failure(error, ENOEXEC, "the server stays: the new one can't be started: %s",
			       why->message);
	if (status != 0)
		return failure(error, ENOEXEC,
			       "the server stays: the new one, %s, doesn't work: %s", program,
			       g_strstrip(said));
	return true;
}

static bool
run_replace_server(const struct verb_call *call, GError **error)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	enum server_kind kind;

	return our_device_find_served(&ours, call->operands[0], error) &&
	       our_device_server(&ours, &kind, error) && program_works(kind, error) &&
	       our_device_ask_guard(&ours, "replace", error);
}

const struct verb verb_replace_server = {
	.name = "replace-server",
	.help = "replace the server process, without an I/O error",
	.synopsis = "DEVICE",
	.summary =
		"Replaces the server process of a device while it is in use, and returns when the new process serves it.",
	.least = 1,
	.most = 1,
	.run = run_replace_server,
};
