/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/http.h"

#include "server/http/admission.h"
#include "server/http/http_library.h"
#include "server/http/route.h"

#include "common/accept_pause.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS_MAX  16
#define CLIENT_GRACE 100 /* ms for a request, though others wait for a place */
#define FIGURES_AGE  100 /* ms for which figures are not made again */
/* For a request's header and its answer's; a browser may send cookies of other local servers. */
#define CLIENT_MEMORY 32768

enum poll_slot {
	POLL_STOP,
	POLL_CLIENTS, /* the library's epoll descriptor */
	POLL_CLIENT,  /* the first of CLIENTS_MAX: whether it has closed */
	POLL_SOCKET = POLL_CLIENT + CLIENTS_MAX, /* the first of them */
};

struct http_client {
	int fd;        /* the library's; -1: the place is free */
	int64_t since; /* CLOCK_MONOTONIC, ms */
	int64_t until; /* the same; 0: it is over */
	bool over_unix;
	bool asked; /* its whole request has come */
};

/* What was answered last; clients that still take it share it. */
struct made_figures {
	struct MHD_Response *response; /* NULL: none */
	int64_t until;                 /* CLOCK_MONOTONIC, ms: then they are made again */
};

struct http {
	struct http_config config; /* its token_file is used only in http_new() */
	char *token;               /* or NULL */
	int stop;                  /* eventfd: the thread shall end */
	bool started;              /* and not joined yet */
	pthread_t thread;
	/* Used only by the thread, while it runs. */
	struct MHD_Daemon *daemon;
	struct pollfd *polled;
	struct accept_pause *pauses; /* of each socket */
	struct http_client clients[CLIENTS_MAX];
	struct made_figures made[FIGURES_KINDS];
};

/* ---- clients */

static struct http_client *
client_at(struct http *http, int fd)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (http->clients[i].fd == fd)
			return &http->clients[i];
	}
	return NULL;
}

static int
fd_of(struct MHD_Connection *connection)
{
	return mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* The library's note that a connection begins or ends. */
static void
connection_noted(void *data, struct MHD_Connection *connection, void **own,
		 enum MHD_ConnectionNotificationCode code)
{
	struct http *http = data;
	struct http_client *client = client_at(http, fd_of(connection));

	(void)own;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED && client)
		client->fd = -1;
}

/* The library then finds the connection closed. */
static void
client_end(struct http_client *client)
{
	shutdown(client->fd, SHUT_RDWR);
	client->until = 0;
}

/* Ends clients that have closed before their request was whole. The library doesn't see the end of
 * a connection that came together with the bytes before it: its epoll is edge-triggered, and it
 * doesn't read again. */
static void
clients_end_closed(struct http *http)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct http_client *client = &http->clients[i];
		char byte;

		if (client->fd >= 0 && client->fd == http->polled[POLL_CLIENT + i].fd &&
		    http->polled[POLL_CLIENT + i].revents && !client->asked && client->until &&
		    recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
			client_end(client);
	}
}

/* The client that has been silent for longest; NULL: all have asked. */
static struct http_client *
client_silent(struct http *http)
{
	struct http_client *oldest = NULL;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct http_client *client = &http->clients[i];

		if (client->fd >= 0 && client->until && !client->asked &&
		    (!oldest || client->since < oldest->since))
			oldest = client;
	}
	return oldest;
}

/* In how many milliseconds a client can have a place; -1: when an answer has been taken. */
static int
place_left(struct http *http)
{
	const struct http_client *silent = client_silent(http);
	int64_t left;

	if (client_at(http, -1))
		return 0;
	if (!silent)
		return -1;
	left = silent->since + CLIENT_GRACE - clock_ms(CLOCK_MONOTONIC);
	return left > 0 ? (int)left : 0;
}

static void
client_accept(struct http *http, unsigned int socket)
{
	const struct http_socket *from = &http->config.sockets[socket];
	struct http_client *client = client_at(http, -1);
	int fd;

	if (!client) {
		if (place_left(http) == 0)
			client_end(client_silent(http));
		return;
	}
	fd = accept_or_pause(&http->pauses[socket], from->fd, SOCK_CLOEXEC | SOCK_NONBLOCK,
			     from->name);
	if (fd < 0)
		return;
	*client = (struct http_client){
		.fd = fd,
		.since = clock_ms(CLOCK_MONOTONIC),
		.until = clock_ms(CLOCK_MONOTONIC) + http->config.client_limit,
		.over_unix = from->is_unix,
	};
	/* It takes the descriptor over, and closes it if this fails. */
	if (mhd.add_connection(http->daemon, fd, NULL, 0) != MHD_YES)
		client->fd = -1;
}

/* Ends the connections whose time is over. Returns poll()'s timeout. */
static int
clients_expire(struct http *http)
{
	int64_t now = clock_ms(CLOCK_MONOTONIC);
	int timeout = -1;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct http_client *client = &http->clients[i];

		if (client->fd < 0 || client->until == 0)
			continue;
		if (client->until > now) {
			timeout = accept_pause_timeout(timeout, (int)(client->until - now));
			continue;
		}
		client_end(client);
	}
	return timeout;
}

/* ---- answers */

static void
add_fields(struct MHD_Response *response, const char *type)
{
	mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	for (const struct http_field *field = http_fields; field->name; field++)
		mhd.add_response_header(response, field->name, field->value);
}

/* The figures, as made a moment ago or now. NULL: out of memory. */
static struct MHD_Response *
figures_response(struct http *http, const struct http_answer *answer)
{
	struct made_figures *made = &http->made[answer->figures];
	char *text;
	size_t size;

	if (made->response && clock_ms(CLOCK_MONOTONIC) < made->until)
		return made->response;
	if (made->response)
		mhd.destroy_response(steal_pointer(&made->response));
	if (http_figures_write(answer->figures, http->config.status, &text, &size) < 0)
		return NULL;
	made->response = mhd.create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
	if (!made->response) {
		free(text);
		return NULL;
	}
	add_fields(made->response, answer->type);
	made->until = clock_ms(CLOCK_MONOTONIC) + FIGURES_AGE;
	return made->response;
}

/* An answer that is not kept. MHD_NO ends the connection. */
static enum MHD_Result
send_once(struct MHD_Connection *connection, const struct http_answer *answer)
{
	/* Only read, since it is the program's own. */
	struct MHD_Response *response = mhd.create_response_from_buffer(
		answer->size, (void *)answer->body, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	add_fields(response, answer->type);
	if (answer->field)
		mhd.add_response_header(response, answer->field, answer->value);
	result = mhd.queue_response(connection, answer->code, response);
	mhd.destroy_response(response);
	return result;
}

static enum MHD_Result
answer_request(void *data, struct MHD_Connection *connection, const char *url, const char *method,
	       const char *version, const char *upload, size_t *upload_size, void **state)
{
	struct http *http = data;
	struct http_client *client = client_at(http, fd_of(connection));
	const struct http_request request = {
		.method = method,
		.path = url,
		.host = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
		.authorization =
			mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
		.accept = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Accept"),
		.over_unix = client && client->over_unix,
		.older = strcmp(version, "HTTP/1.1") < 0,
	};
	struct MHD_Response *response;
	struct http_answer answer;

	if (client)
		client->asked = true;
	(void)upload, (void)upload_size, (void)state;
	http_route(&request, http->token, &answer);
	if (answer.figures == FIGURES_NONE)
		return send_once(connection, &answer);
	response = figures_response(http, &answer);
	return response ? mhd.queue_response(connection, answer.code, response) : MHD_NO;
}

/* ---- the thread */

/* Lists what the thread waits for. Returns poll()'s timeout. */
static int
http_prepare_polling(struct http *http)
{
	int timeout = clients_expire(http), place = place_left(http);
	MHD_UNSIGNED_LONG_LONG wanted;

	if (mhd.get_timeout(http->daemon, &wanted) == MHD_YES)
		timeout = accept_pause_timeout(timeout, wanted < 1000 ? (int)wanted : 1000);
	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct http_client *client = &http->clients[i];

		http->polled[POLL_CLIENT + i] =
			(struct pollfd){.fd = client->asked || !client->until ? -1 : client->fd,
					.events = POLLRDHUP};
	}
	if (place > 0)
		timeout = accept_pause_timeout(timeout, place);
	for (unsigned int i = 0; i < http->config.count; i++) {
		int left = accept_pause_left(&http->pauses[i]);

		http->polled[POLL_SOCKET + i] = (struct pollfd){
			.fd = left || place ? -1 : http->config.sockets[i].fd, .events = POLLIN};
		timeout = accept_pause_timeout(timeout, left);
	}
	return timeout;
}

static void *
http_run(void *data)
{
	struct http *http = data;
	unsigned int count = POLL_SOCKET + http->config.count;

	pthread_setname_np(pthread_self(), "http");
	thread_confine(THREAD_HTTP);
	for (;;) {
		int timeout = http_prepare_polling(http);

		/* A failure (no memory) leaves nothing in .revents, and passes. */
		if (poll(http->polled, count, timeout) < 0)
			usleep(1000);
		if (http->polled[POLL_STOP].revents)
			break;
		for (unsigned int i = 0; i < http->config.count; i++) {
			if (http->polled[POLL_SOCKET + i].revents)
				client_accept(http, i);
		}
		mhd.run(http->daemon);
		clients_end_closed(http);
	}
	/* Others may use the address from now on. */
	for (unsigned int i = 0; i < http->config.count; i++)
		shutdown(http->config.sockets[i].fd, SHUT_RDWR);
	mhd.stop_daemon(steal_pointer(&http->daemon));
	return NULL;
}

int
http_start(struct http *http)
{
	int r = thread_start(&http->thread, http_run, http);

	http->started = r == 0;
	return r;
}

/* ---- beginning and end */

static int
open_parts(struct http *http)
{
	unsigned int count = http->config.count;

	http->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (http->stop < 0)
		return -errno;
	http->polled = calloc(POLL_SOCKET + count, sizeof(*http->polled));
	http->pauses = calloc(count, sizeof(*http->pauses));
	/* This thread polls and accepts: so it can end a connection when its time is over. */
	http->daemon = mhd.start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer_request, http,
		MHD_OPTION_NOTIFY_CONNECTION, connection_noted, http, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)CLIENTS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CLIENT_MEMORY, MHD_OPTION_END);
	if (!http->polled || !http->pauses || !http->daemon)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++)
		http->pauses[i] = (struct accept_pause)ACCEPT_PAUSE_INIT;
	http->polled[POLL_STOP] = (struct pollfd){.fd = http->stop, .events = POLLIN};
	http->polled[POLL_CLIENTS] = (struct pollfd){
		.fd = mhd.get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
		.events = POLLIN,
	};
	return 0;
}

int
http_new(const struct http_config *config, struct http **made, char **error)
{
	struct http *http;
	int r = http_library_load(error);

	if (r < 0)
		return r;
	http = calloc(1, sizeof(*http));
	if (!http)
		return -ENOMEM;
	http->config = *config;
	http->stop = -1;
	for (int i = 0; i < CLIENTS_MAX; i++)
		http->clients[i].fd = -1;
	if (config->token_file)
		r = http_token_read(config->token_file, &http->token, error);
	if (r == 0)
		r = open_parts(http);
	if (r < 0)
		http_free(http);
	else
		*made = http;
	return r;
}

void
http_stop(struct http *http)
{
	if (http && http->started)
		eventfd_write(http->stop, 1);
}

bool
http_is_over(struct http *http)
{
	if (http && http->started && pthread_tryjoin_np(http->thread, NULL) == 0)
		http->started = false;
	return !http || !http->started;
}

void
http_free(struct http *http)
{
	if (!http)
		return;
	http_stop(http);
	if (!http_is_over(http))
		pthread_join(http->thread, NULL);
	if (http->daemon)
		mhd.stop_daemon(http->daemon);
	for (int i = 0; i < FIGURES_KINDS; i++) {
		if (http->made[i].response)
			mhd.destroy_response(http->made[i].response);
	}
	if (http->token)
		explicit_bzero(http->token, strlen(http->token));
	free(http->token);
	free(http->pauses);
	free(http->polled);
	if (http->stop >= 0)
		close(http->stop);
	free(http);
}
