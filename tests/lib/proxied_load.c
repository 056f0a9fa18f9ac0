/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxied_load STOP URI OPTION=VALUE...: the options of `nbdloop attach', with tls=proxy.  Plays
 * the kernel and the guard, so that a proxy can be tried without a device: writes to the export
 * over connections that the kernel would get, and reads back, until the file STOP exists.  As the
 * kernel does, it repeats requests whose connection was lost.  Prints what TLS is like when it
 * begins, and at the end how many writes it has read back, and how often connections were lost.
 */
#include "tool/source/source.h"
#include "tool/attach/attach_plan.h"

#include "common/option_row.h"
#include "nbd/protocol.h"
#include "nbd/wire.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	REPLY_SIZE = 16,
	LONGEST = 1 << 20, /* bytes of a write */
	PAUSE_US = 20000,
};

static uint8_t written[LONGEST], seen[LONGEST];
static struct source source;
static unsigned int lost;

static bool
put(int fd, const void *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		bytes = (const uint8_t *)bytes + n;
		length -= (size_t)n;
	}
	return true;
}

static bool
get(int fd, void *bytes, size_t length)
{
	return recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

static bool
ask(int fd, uint16_t type, uint64_t offset, uint32_t length)
{
	uint8_t request[NBD_REQUEST_SIZE], *at = request;

	at = wire_store32(at, NBD_REQUEST_MAGIC);
	at = wire_store16(at, 0);
	at = wire_store16(at, type);
	at = wire_store64(at, offset + type);
	at = wire_store64(at, offset);
	wire_store32(at, length);
	return put(fd, request, sizeof(request));
}

/* An error that the server tells would be one of the device. */
static bool
hear(int fd, uint16_t type, uint64_t offset)
{
	uint8_t reply[REPLY_SIZE];

	if (!get(fd, reply, sizeof(reply)))
		return false;
	if (wire_load32(reply) != NBD_SIMPLE_REPLY_MAGIC || wire_load32(reply + 4) != 0 ||
	    wire_load64(reply + 8) != offset + type)
		errx(1, "a wrong reply");
	return true;
}

/* False: the connection was lost. */
static bool
write_and_read(int fd, uint64_t offset, uint32_t length)
{
	if (!ask(fd, NBD_CMD_WRITE, offset, length) || !put(fd, written, length) ||
	    !hear(fd, NBD_CMD_WRITE, offset) || !ask(fd, NBD_CMD_READ, offset, length) ||
	    !hear(fd, NBD_CMD_READ, offset) || !get(fd, seen, length))
		return false;
	if (memcmp(written, seen, length) != 0)
		errx(1, "%u bytes at %llu are not what was written", length,
		     (unsigned long long)offset);
	return true;
}

static void
reconnect(void)
{
	g_autofree char *why = NULL;
	bool crashed, opened = false;

	lost++;
	while (!opened) {
		g_autoptr(GError) error = NULL;

		source_is_lost(&source, &crashed, &why);
		g_clear_pointer(&why, g_free);
		opened = source_open(&source, &error);
		if (!opened)
			usleep(PAUSE_US);
	}
}

static void
write_somewhere(struct source_connection *connection)
{
	const uint32_t length = 1 + (uint32_t)random() % LONGEST;
	const uint64_t offset = (uint64_t)random() % (connection->export.size - length);

	for (uint32_t i = 0; i < length; i++)
		written[i] = (uint8_t)random();
	while (!write_and_read(connection->fd, offset, length))
		reconnect();
}

static void
make_plan(struct guard_plan *plan, char **words)
{
	struct attach_options options;
	const char *uri = *words;
	g_autoptr(GError) error = NULL;

	options_init(attach_option_rows, &options);
	while (*++words) {
		char *value = strchr(*words, '='), *why = NULL;

		*value++ = '\0';
		if (option_set(attach_option_rows, &options, *words, value, &why) < 0)
			errx(1, "%s", why);
	}
	if (!attach_options_plan(&options, g_strdup(uri), true, plan, &error))
		errx(1, "%s", error->message);
	options_free(attach_option_rows, &options);
}

int
main(int argc, char **argv)
{
	struct guard_plan plan;
	g_autoptr(GError) error = NULL;
	unsigned int writes = 0;

	if (argc < 3)
		errx(1, "proxied_load STOP URI OPTION=VALUE...");
	make_plan(&plan, argv + 2);
	source_init(&source, &plan.source, NULL, NULL);
	if (!source_open(&source, &error))
		errx(1, "%s", error->message);
	puts(source.connections[0].tls);
	fflush(stdout);
	/* At least once over each. */
	for (; writes < plan.source.connections || access(argv[1], F_OK) < 0; writes++)
		write_somewhere(&source.connections[writes % plan.source.connections]);
	for (unsigned int i = 0; i < plan.source.connections; i++)
		ask(source.connections[i].fd, NBD_CMD_DISC, 0, 0);
	source_break(&source);
	source_fini(&source);
	guard_plan_fini(&plan);
	printf("%u writes, %u losses\n", writes, lost);
	return EXIT_SUCCESS;
}
