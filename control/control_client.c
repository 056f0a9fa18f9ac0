/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection to the control socket.
 */
#include "control/control_client.h"

#include "control/answer.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

void
control_client_init(struct control_client *client)
{
	*client = (struct control_client){.fd = -1};
}

void
control_client_open(struct control_client *client, int fd)
{
	assert(client->fd < 0);
	client->fd = fd;
	client->deadline = clock_ms(CLOCK_MONOTONIC) + CONTROL_CLIENT_TIMEOUT_MS;
}

void
control_client_close(struct control_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	free(client->answer);
	free(client->change.answer);
	control_client_init(client);
}

/* Returns whether there is a whole line, or more bytes than any line may have. */
static bool
line_ready(const struct control_client *client)
{
	return client->used == sizeof(client->line) || memchr(client->line, '\n', client->used);
}

short
control_client_events(const struct control_client *client)
{
	if (client->answer)
		return POLLOUT;
	/* A line that was already received causes no POLLIN. */
	if (!client->draining && line_ready(client))
		return POLLOUT;
	return POLLIN;
}

int
control_client_patience(const struct control_client *client)
{
	int64_t left = client->deadline - clock_ms(CLOCK_MONOTONIC);

	return left > 0 ? (int)left : 0;
}

static int
take_answer(struct control_client *client, char *text, size_t size)
{
	if (!text)
		return -ENOMEM;
	client->used -= client->taken;
	memmove(client->line, client->line + client->taken, client->used);
	client->taken = 0;
	client->answer = text;
	client->answer_size = size;
	client->answer_sent = 0;
	/* The client's time does not include the handler's. */
	client->deadline = clock_ms(CLOCK_MONOTONIC) + CONTROL_CLIENT_TIMEOUT_MS;
	return 0;
}

/* Answers the first `length` bytes of .line, which a newline follows. */
static int
control_client_answer(struct control_client *client, size_t length, control_handler handler,
		      void *data)
{
	struct control_request request;
	const char *error = "the request contains a NUL byte";
	size_t size = 0;
	char *text;

	client->line[length] = '\0';
	client->taken = length + 1;
	if (strlen(client->line) != length ||
	    control_request_parse(client->line, &request, &error)) {
		text = answer_error_line(error, &size);
	} else if (request.verb != CONTROL_STATUS) {
		client->change = (struct change){.request = request};
		client->changing = true;
		return CONTROL_CLIENT_CHANGES;
	} else {
		text = answer_line(&request, handler, data, &size);
	}
	return take_answer(client, text, size);
}

/* Answers the first line, or explains why there is no line. */
static int
client_answer(struct control_client *client, control_handler handler, void *data)
{
	const char *end = memchr(client->line, '\n', client->used);
	size_t size = 0;
	char *text;

	if (end)
		return control_client_answer(client, (size_t)(end - client->line), handler, data);
	client->last_answer = true;
	text = answer_error_line(client->used == sizeof(client->line)
					 ? "the request is too long"
					 : "the request has no newline at its end",
				 &size);
	return take_answer(client, text, size);
}

int
control_client_changed(struct control_client *client)
{
	assert(client->changing);
	client->changing = false;
	return take_answer(client, steal_pointer(&client->change.answer),
			   client->change.answer_size);
}

static int
client_send(struct control_client *client)
{
	ssize_t sent = send(client->fd, client->answer + client->answer_sent,
			    client->answer_size - client->answer_sent, MSG_NOSIGNAL);

	if (sent < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	client->answer_sent += (size_t)sent;
	if (client->answer_sent < client->answer_size)
		return 0;

	free(steal_pointer(&client->answer));
	if (client->last_answer) {
		/* A close() now, with unread input, would reset the connection: the client might
		 * fail in its send() and never read the reason. */
		client->draining = true;
		client->used = 0;
		if (shutdown(client->fd, SHUT_WR))
			return -errno;
	}
	return 0;
}

/* Returns 0, -ESHUTDOWN if the client has shut down its side, or another -errno. */
static int
client_receive(struct control_client *client)
{
	ssize_t got = recv(client->fd, client->line + client->used,
			   sizeof(client->line) - client->used, 0);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (got == 0)
		return -ESHUTDOWN;
	if (!client->draining)
		client->used += (size_t)got;
	return 0;
}

int
control_client_serve(struct control_client *client, control_handler handler, void *data)
{
	int r = 0;
	bool half_line = false;

	assert(!client->changing);
	if (client->draining)
		return client_receive(client);

	if (!client->answer && !line_ready(client)) {
		r = client_receive(client);
		half_line = r == -ESHUTDOWN && client->used > 0;
		if (r && !half_line)
			return r;
	}
	if (!client->answer && (line_ready(client) || half_line)) {
		r = client_answer(client, handler, data);
		if (r)
			return r;
	}
	return client->answer ? client_send(client) : 0;
}
