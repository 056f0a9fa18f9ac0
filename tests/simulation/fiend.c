/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/fiend.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/client.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include "nbd/protocol.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Its number among the clients. */
#define FIEND 99

/* Most bytes that it sends at once. */
#define BYTES_MAX 70000

static bool stopping, running;

static uint8_t *
put(uint8_t *at, uint64_t value, unsigned int size)
{
	value = htobe64(value);
	return mempcpy(at, (uint8_t *)&value + sizeof(value) - size, size);
}

static size_t
fiend_make_noise(uint8_t *bytes)
{
	const size_t size = chance_between(1, chance_once_in(8) ? BYTES_MAX : 100);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)chance_below(256);
	/* Not the flags of a client, and so no handshake. */
	bytes[0] |= 0x80;
	return size;
}

static size_t
fiend_make_option(uint8_t *bytes)
{
	static const uint32_t lengths[] = {0, 1, 2, 4, 6, 10, 40, 4096, 65536, UINT32_MAX};
	const uint32_t length = lengths[chance_below(sizeof(lengths) / sizeof(lengths[0]))];
	const size_t size = length <= 4096 ? length : chance_below(100);
	uint8_t *at = bytes;

	if (chance_once_in(8))
		return fiend_make_noise(bytes);
	at = put(at, NBD_OPTION_MAGIC ^ (chance_once_in(16) ? 1 : 0), 8);
	at = put(at, chance_once_in(16) ? chance_below(UINT32_MAX) : chance_below(14), 4);
	at = put(at, length, 4);
	/* Small numbers, so that counts and lengths in it are near to what they may be. */
	for (size_t i = 0; i < size; i++)
		*at++ = (uint8_t)(chance_once_in(2) ? 0
						    : chance_below(chance_once_in(4) ? 256 : 8));
	return (size_t)(at - bytes);
}

/* A request that changes nothing: beyond the end, or of no length, or of no known type. */
static size_t
fiend_make_request(uint8_t *bytes)
{
	static const uint64_t lengths[] = {0, 1, 511, 4096, 65536, 33554433, UINT32_MAX};
	const uint64_t size = (uint64_t)client_plan.sectors * SECTOR_SIZE;
	const uint64_t offsets[] = {size, size + 1, UINT64_MAX, UINT64_MAX - 511, size << 8};
	const uint16_t type = (uint16_t)(chance_once_in(8) ? chance_below(65536) : chance_below(9));
	const uint64_t length = lengths[chance_below(sizeof(lengths) / sizeof(lengths[0]))];
	uint64_t offset = offsets[chance_below(sizeof(offsets) / sizeof(offsets[0]))];
	uint8_t *at = bytes;

	if (chance_once_in(16))
		return fiend_make_noise(bytes);
	if (type == NBD_CMD_READ && chance_once_in(2))
		offset = chance_below(size);
	at = put(at, NBD_REQUEST_MAGIC ^ (chance_once_in(16) ? 1 : 0), 4);
	at = put(at, chance_once_in(4) ? chance_below(65536) : 0, 2);
	at = put(at, type, 2);
	at = put(at, chance_below(UINT32_MAX), 8);
	at = put(at, offset, 8);
	at = put(at, length, 4);
	if (type == NBD_CMD_WRITE && length <= 4096) {
		memset(at, 0xff, length);
		at += length;
	}
	return (size_t)(at - bytes);
}

/* Reads what is there. */
static void
fiend_listen(struct socket *socket)
{
	uint8_t byte;

	for (unsigned int i = 0; i < 5000 && network_is_readable(socket); i++) {
		if (network_receive(socket, &byte, 1, scheduler_now()) < 0)
			return;
	}
}

/* Returns 0, or -errno if the server has ended the connection. */
static int
fiend_send(struct socket *socket, uint8_t *bytes, size_t size)
{
	if (chance_once_in(8))
		size = chance_below(size + 1);
	return network_try(socket, bytes, size);
}

/* The handshake of a good client, with flags that are wrong now and then, up to transmission. */
static int
fiend_shake_hands(struct socket *socket, uint8_t *bytes)
{
	uint8_t *at = put(bytes, chance_once_in(8) ? chance_below(UINT32_MAX) : 3, 4);

	if (chance_once_in(2)) {
		at = put(put(at, NBD_OPTION_MAGIC, 8), NBD_OPT_EXPORT_NAME, 4);
		at = put(at, 0, 4);
	} else {
		at = put(put(at, NBD_OPTION_MAGIC, 8), NBD_OPT_GO, 4);
		at = put(put(at, 6, 4), 0, 6);
	}
	return network_try(socket, bytes, (size_t)(at - bytes));
}

static void
fiend_haunt(struct socket *socket, uint8_t *bytes)
{
	const bool transmits = chance_once_in(2);
	int r = 0;

	if (transmits)
		r = fiend_shake_hands(socket, bytes);
	else if (!chance_once_in(4))
		r = network_try(socket, bytes, (size_t)(put(bytes, 3, 4) - bytes));
	for (unsigned int i = (unsigned int)chance_below(12); r == 0 && i > 0; i--) {
		const size_t size =
			transmits ? fiend_make_request(bytes) : fiend_make_option(bytes);

		r = fiend_send(socket, bytes, size);
		fiend_listen(socket);
		scheduler_sleep((int64_t)chance_below(3000) * MICROSECOND);
	}
}

static void *
fiend_run(void *data)
{
	uint8_t *bytes = malloc(BYTES_MAX + 64);

	(void)data;
	while (!stopping) {
		struct socket *socket;

		scheduler_sleep((int64_t)chance_below(60) * MILLISECOND);
		socket = network_connect(client_plan.address, FIEND);
		if (!socket)
			continue;
		if (!stopping && event_happens("sends garbage")) {
			trace("sends garbage");
			fiend_haunt(socket, bytes);
		}
		if (chance_once_in(8))
			scheduler_sleep((int64_t)chance_below(2000) * MILLISECOND);
		network_close(socket, chance_once_in(2));
	}
	free(bytes);
	running = false;
	return NULL;
}

void
fiend_start(void)
{
	stopping = false;
	running = true;
	scheduler_start("fiend", NULL, fiend_run, NULL);
}

static bool
fiend_is_gone(void *data)
{
	(void)data;
	return !running;
}

void
fiend_stop(void)
{
	stopping = true;
	scheduler_wait("the fiend to leave", fiend_is_gone, NULL, FOR_EVER);
}
