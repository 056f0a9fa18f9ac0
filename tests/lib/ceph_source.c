/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ceph_source SERVER DIRECTORY: plays the guard of a device of rbd:rbd/disk, whose server is
 * nbdloopd or nbdkit, without a device: servers that are killed, that end, and that are fenced.
 * Fails unless the source knows after each of them what the next one must be told.
 */
#include "tool/source/source.h"

#include "nbd/protocol.h"
#include "nbd/wire.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	STEP_US = 20000,
	TRIES = 3000,
	BLOCK = 4096,
	REPLY_SIZE = 16,
};

static struct source source;
static char last[256]; /* what the next server must be told */

static void
expect(bool holds, const char *what)
{
	if (!holds)
		errx(1, "not so: %s; ceph-fence=%s", what, source_facts_of(&source).ceph_fence);
}

/* The server that runs now. */
static pid_t
server_pid(void)
{
	g_autofree char *command =
		g_strdup_printf("pgrep -P %d -x 'nbdloopd|nbdkit'", (int)getpid());
	FILE *out = popen(command, "re");
	int pid = 0;

	if (!out || fscanf(out, "%d", &pid) != 1)
		errx(1, "no server runs");
	pclose(out);
	return pid;
}

/* Opens the source, and expects another client of Ceph than before. */
static void
open_next(void)
{
	g_autoptr(GError) error = NULL;

	if (!source_open(&source, &error))
		errx(1, "%s", error->message);
	expect(strcmp(source_facts_of(&source).ceph_fence, last) != 0, "it is another client");
	expect(!strchr(source_facts_of(&source).ceph_fence, '+'), "it has the lock");
	g_strlcpy(last, source_facts_of(&source).ceph_fence, sizeof(last));
}

static void
await_loss(void)
{
	g_autofree char *why = NULL;
	bool crashed;

	for (int i = 0; !source_is_lost(&source, &crashed, &why); i++) {
		expect(i < TRIES, "the server has ended");
		usleep(STEP_US);
	}
}

/* Returns whether a write succeeds. */
static bool
write_block(void)
{
	uint8_t bytes[28 + BLOCK] = {0}, reply[REPLY_SIZE];
	const int fd = source.connections[0].fd;

	wire_store32(bytes, NBD_REQUEST_MAGIC);
	wire_store16(bytes + 6, NBD_CMD_WRITE);
	wire_store32(bytes + 24, BLOCK);
	return send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes) &&
	       recv(fd, reply, sizeof(reply), MSG_WAITALL) == sizeof(reply) &&
	       wire_load32(reply + 4) == 0;
}

int
main(int argc, char **argv)
{
	const bool nbdkit = argc > 1 && strcmp(argv[1], "nbdkit") == 0;
	struct source_plan plan = {
		.place = g_strdup("rbd:rbd/disk"),
		.connections = 1,
		.server = nbdkit ? SERVER_NBDKIT : SERVER_NBDLOOPD,
		.server_options = g_ptr_array_new(),
		.direct_io = "auto",
	};
	g_autoptr(GError) error = NULL;
	g_autofree char *fence = NULL;

	if (argc != 3)
		errx(1, "ceph_source SERVER DIRECTORY");
	source_init(&source, &plan, g_build_filename(argv[2], "control", NULL),
		    g_build_filename(argv[2], "nbd", NULL));
	open_next();
	expect(write_block(), "a write succeeds");
	kill(server_pid(), SIGKILL);
	await_loss();
	expect(strcmp(source_facts_of(&source).ceph_fence, last) == 0,
	       "a killed server has the lock");
	open_next();
	expect(write_block(), "a write succeeds after a server was killed");
	if (!nbdkit) {
		kill(server_pid(), SIGTERM);
		await_loss();
		fence = g_strconcat(last, "+free", NULL);
		expect(strcmp(source_facts_of(&source).ceph_fence, fence) == 0,
		       "a server that ended has released the lock");
		open_next();
	}
	expect(write_block(), "a write succeeds after a server has ended");
	g_free(fence);
	fence = g_strdup_printf("ceph osd blocklist add %s >&2", last);
	expect(system(fence) == 0, "the server is fenced");
	for (int i = 0; write_block(); i++) {
		expect(i < TRIES, "the server notices that");
		usleep(STEP_US);
	}
	source_pass_output(&source);
	expect(source_is_fenced(&source), "the source knows that");
	source_break(&source);
	await_loss();
	expect(!source_open(&source, &error), "no server follows");
	puts(error->message);
	source_fini(&source);
	g_ptr_array_unref(plan.server_options);
	g_free(plan.place);
	return EXIT_SUCCESS;
}
