/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket, fed with anything.  An input begins with a byte that chooses the pieces in
 * which the rest, the client's bytes, arrives.  However it is cut, the answers must be the same,
 * and each a line of JSON.
 */
#include "fuzz/fuzz.h"

#include "common/json.h"
#include "control/control_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One connection and what was seen of it. */
struct run {
	struct control_client client;
	int peer;            /* our end */
	const uint8_t *data; /* still to be sent */
	size_t size;
	size_t piece;
	bool in_string, escaped; /* where the answers are */
	unsigned int depth;
	unsigned int requests; /* that the handler has seen */
	unsigned int answers;
	uint64_t sum; /* of all answers (FNV-1a) */
};

/* Tells all of the request in the answer. */
static void
control_handle(const struct control_request *request, FILE *out, void *data)
{
	struct run *run = data;
	struct json json;

	run->requests++;
	CHECK(request->verb <= CONTROL_DELETE_CHECKPOINT);
	CHECK(!request->direct_io || request->verb == CONTROL_SET);
	CHECK(!request->addition == (request->verb != CONTROL_ADD));
	CHECK(!request->addition || strchr(request->addition, '='));
	CHECK(request->export_name || request->verb != CONTROL_REMOVE);
	CHECK(!request->export_name ||
	      (request->verb != CONTROL_ADD && request->verb != CONTROL_STATUS &&
	       request->verb != CONTROL_RELOAD && request->verb != CONTROL_LISTEN));
	CHECK((request->allow || request->allow_write) == (request->verb == CONTROL_SET_RULES));
	CHECK(!request->clients == (request->verb != CONTROL_DISCONNECT));
	CHECK(!request->snapshot == (request->verb != CONTROL_SNAPSHOT));
	CHECK(request->snapshot ||
	      (!request->scratch && !request->scratch_size && !request->expire));
	CHECK(request->snapshot || (!request->all && !request->local));
	CHECK(!request->all || !request->export_name);
	CHECK(request->snapshot ||
	      !request->checkpoint == (request->verb < CONTROL_CREATE_CHECKPOINT));
	CHECK(!request->granularity || request->verb == CONTROL_CREATE_CHECKPOINT);
	json_init(&json, out);
	json_object_begin(&json, NULL);
	json_put_uint(&json, "verb", request->verb);
	json_put_bool(&json, "direct_io", request->direct_io);
	json_put_string(&json, "export", request->export_name);
	json_put_string(&json, "addition", request->addition);
	json_put_string(&json, "allow", request->allow);
	json_put_string(&json, "allow_write", request->allow_write);
	json_put_string(&json, "clients", request->clients);
	json_put_string(&json, "snapshot", request->snapshot);
	json_put_string(&json, "scratch", request->scratch);
	json_put_uint(&json, "scratch_size", request->scratch_size);
	json_put_uint(&json, "expire", request->expire);
	json_put_string(&json, "checkpoint", request->checkpoint);
	json_put_string(&json, "granularity", request->granularity);
	json_object_end(&json);
}

static void
check_byte(struct run *run, uint8_t byte)
{
	run->sum = (run->sum ^ byte) * UINT64_C(0x100000001b3);
	if (byte == '\n') {
		CHECK(!run->in_string && run->depth == 0);
		run->answers++;
	} else if (run->in_string) {
		CHECK(byte >= ' ' && byte != 0x7f);
		if (byte == '"' && !run->escaped)
			run->in_string = false;
		run->escaped = byte == '\\' && !run->escaped;
	} else {
		CHECK(byte > ' ' && byte < 0x7f);
		run->in_string = byte == '"';
		run->depth += byte == '{';
		CHECK(byte != '}' || run->depth-- > 0);
	}
}

static void
control_take_answers(struct run *run)
{
	uint8_t bytes[4096];
	ssize_t n;

	while ((n = recv(run->peer, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		for (ssize_t i = 0; i < n; i++)
			check_byte(run, bytes[i]);
}

/* The next piece; behind the last one, the end. */
static void
give_piece(struct run *run)
{
	size_t length = run->size < run->piece ? run->size : run->piece;
	ssize_t n;

	if (!length) {
		shutdown(run->peer, SHUT_WR);
		return;
	}
	n = send(run->peer, run->data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	CHECK(n > 0 || errno == EAGAIN);
	if (n > 0) {
		run->data += n;
		run->size -= (size_t)n;
	}
}

static void
control_feed(struct run *run, const uint8_t *data, size_t size, size_t piece)
{
	int sockets[2], result = 0;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0);
	*run = (struct run){.peer = sockets[1], .data = data, .size = size, .piece = piece};
	control_client_init(&run->client);
	control_client_open(&run->client, sockets[0]);
	while (!result) {
		struct pollfd polled = {.fd = sockets[0],
					.events = control_client_events(&run->client)};

		give_piece(run);
		/* It must never wait for what can't come. */
		CHECK(poll(&polled, 1, 0) == 1);
		result = control_client_serve(&run->client, control_handle, run);
		if (result == CONTROL_CLIENT_CHANGES) {
			change_carry_out(&run->client.change, control_handle, run);
			result = control_client_changed(&run->client);
		}
		control_take_answers(run);
	}
	CHECK(result == -ESHUTDOWN && !run->size);
	CHECK(run->requests <= run->answers && run->depth == 0 && !run->in_string);
	control_client_close(&run->client);
	close(sockets[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run whole, pieces;

	if (!size)
		return 0;
	control_feed(&whole, data + 1, size - 1, size);
	control_feed(&pieces, data + 1, size - 1, data[0] ? data[0] : 1);
	CHECK(whole.sum == pieces.sum);
	CHECK(whole.requests == pieces.requests);
	return 0;
}
