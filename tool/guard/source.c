/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/source.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/guard/guard_files.h"
#include "tool/server/server_sockets.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	FLAG_MULTI_CONN =
		1 << 8, /* of the NBD protocol: what one connection flushes, others wrote */
	END_PATIENCE_MS = 5000,
	MOMENT_MS = 1000,
	STEP_MS = 10,
};

void
source_init(struct source *source, const struct source_plan *plan, char *control)
{
	*source = (struct source){
		.plan = plan,
		.place = g_strdup(plan->place),
		.image = -1,
		.direct_io = plan->direct_io,
		.control = control,
		.connections = g_new0(struct connection, plan->connections),
	};
	server_process_init(&source->server);
	for (unsigned int i = 0; i < plan->connections; i++)
		source->connections[i].fd = -1;
}

static void
close_connection(struct connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
}

static void
close_connections(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++)
		close_connection(&source->connections[i]);
}

bool
source_lacks(const struct source *source, unsigned int i)
{
	return source->connections[i].fd < 0 && !source->connections[i].unseen;
}

/* ---- what the server says */

/* With the image's name in place of the path that the server was given (find_image()).  Caller
 * frees. */
static char *
reword(const struct source *source, const char *text)
{
	GString *words = g_string_new(text);
	g_autofree char *path = image_file_path(source->image);
	g_autofree char *name = source->renamed ? image_file_name(path) : g_strdup(source->place);

	g_string_replace(words, path, name, 0);
	return g_string_free(words, false);
}

static void
hear(int level, const char *line, void *data)
{
	struct source *source = data;
	g_autofree char *text = reword(source, line);

	if (level == LOG_LEVEL_ERROR && source->refusal)
		g_string_append_printf(source->refusal, "%s%s", source->refusal->len ? "; " : "",
				       text);
	else if (level == LOG_LEVEL_ERROR)
		log_error("%s", text);
	else if (level == LOG_LEVEL_WARNING)
		log_warning("%s", text);
	else
		log_info("%s", text);
}

void
source_listen(struct source *source)
{
	server_process_listen(&source->server, hear, source);
}

/* ---- our own server */

/*
 * Where the server finds the image: always by what is held here, so that it is the same one as at
 * first, whoever has its name meanwhile, or takes it a moment later.
 */
static char *
find_image(struct source *source, GError **error)
{
	bool renamed;
	char *path;

	if (source->image < 0)
		source->image = image_file_hold(source->place, error);
	if (source->image < 0)
		return NULL;
	path = image_file_path(source->image);
	renamed = !image_file_is_named(source->place, source->image);
	if (renamed && !source->renamed) {
		g_autofree char *name = image_file_name(path);

		log_warning(
			"%s is not the image any more that was attached; that goes on being served: %s",
			source->place, name);
	}
	source->renamed = renamed;
	return path;
}

static bool
start_process(struct source *source, const int *sockets, unsigned int count, GError **error)
{
	const struct source_plan *plan = source->plan;
	g_autofree char *image = find_image(source, error);
	const struct server_command command = {
		.kind = plan->server,
		.sockets = count,
		.control = source->control,
		.direct_io = source->direct_io,
		.options = plan->server_options,
		.read_only = source->read_only,
		.force = plan->force || source->served,
		.image = image,
	};
	g_auto(GStrv) words = image ? server_command_words(&command) : NULL;

	return words && server_process_start(&source->server, words, sockets, count,
					     plan->server == SERVER_NBDKIT, error);
}

/* Starts it; ours[] are the ends to negotiate on, -1 when it could not be started. */
static bool
start_server(struct source *source, int *ours, GError **error)
{
	const unsigned int count = source->plan->connections;
	const bool listens = source->plan->server == SERVER_NBDKIT;
	g_autofree char *name = listens ? guard_files_path(NULL, getpid(), "nbd") : NULL;
	g_autofree int *theirs = g_new(int, count);
	unsigned int given = 0;
	bool started = server_sockets_make(ours, theirs, count, name, &given, error) &&
		       start_process(source, theirs, given, error);

	server_sockets_close(theirs, given);
	if (!started)
		server_sockets_close(ours, count);
	return started;
}

static void
end_server(struct source *source)
{
	server_process_end(&source->server, END_PATIENCE_MS);
	source_listen(source);
	server_process_fini(&source->server);
}

/* All the server's words, when it has ended: they say more than what its end looks like from here.
 */
static void
prefer_refusal(struct source *source, GError **error)
{
	end_server(source);
	if (!source->refusal->len || !error || !*error)
		return;
	g_clear_error(error);
	/* engine/image/lock.c says it like that. */
	failure(error, strstr(source->refusal->str, " lock, because ") ? ETXTBSY : EIO, "%s",
		source->refusal->str);
}

static bool
open_server(struct source *source, GError **error)
{
	unsigned int count = source->plan->connections;
	g_autofree int *ours = g_new(int, count);
	bool opened;

	source->refusal = g_string_new(NULL);
	opened = start_server(source, ours, error);
	for (unsigned int i = 0; i < count && ours[i] >= 0; i++) {
		if (!opened)
			close(ours[i]);
		else
			opened = connection_over_socket(&source->connections[i], ours[i], error);
	}
	if (!opened) {
		close_connections(source);
		prefer_refusal(source, error);
	} else {
		source_listen(source);
	}
	g_string_free(source->refusal, true);
	source->refusal = NULL;
	return opened;
}

/* ---- somebody else's */

static bool
connect_remote(struct source *source, struct connection *connection, GError **error)
{
	if (!connection_to_uri(connection, source->place, error))
		return false;
	if (source->plan->connections == 1 || connection->flags & FLAG_MULTI_CONN)
		return true;
	close_connection(connection);
	return failure(
		error, EOPNOTSUPP,
		"%s: the server doesn't allow several connections (multi-conn): leave out --connections",
		source->place);
}

static bool
open_remote(struct source *source, GError **error)
{
	unsigned int count = source->plan->connections;
	g_autofree bool *is_new = g_new0(bool, count);

	for (unsigned int i = 0; i < count; i++) {
		is_new[i] = source_lacks(source, i);
		if (!is_new[i] || connect_remote(source, &source->connections[i], error))
			continue;
		for (unsigned int j = 0; j < i; j++) {
			if (is_new[j])
				close_connection(&source->connections[j]);
		}
		return false;
	}
	return true;
}

bool
source_open(struct source *source, GError **error)
{
	bool opened =
		source->plan->remote ? open_remote(source, error) : open_server(source, error);

	source->served = source->served || opened;
	return opened;
}

/* ---- another image */

void
source_init_trial(struct source *trial, const struct source *source, const char *image)
{
	source_init(trial, source->plan, NULL);
	g_free(trial->place);
	trial->place = g_strdup(image);
	trial->direct_io = source->direct_io;
	trial->read_only = true;
}

void
source_swap_image(struct source *source, struct source *other)
{
	char *place = source->place;
	int image = source->image;

	source->place = other->place;
	source->image = other->image;
	other->place = place;
	other->image = image;
	source->renamed = other->renamed = false;
	source->read_only = true;
}

/* ---- its end */

/* How many connections have ended that are open here; they are not any more. */
static unsigned int
close_ended(struct source *source)
{
	unsigned int ended = 0;

	for (unsigned int i = 0; i < source->plan->connections; i++) {
		struct pollfd state = {.fd = source->connections[i].fd, .events = POLLRDHUP};

		if (state.fd < 0 || poll(&state, 1, 0) == 0)
			continue;
		close_connection(&source->connections[i]);
		ended++;
	}
	return ended;
}

void
source_set_unseen(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++)
		source->connections[i].unseen = true;
}

unsigned int
source_unseen(const struct source *source)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < source->plan->connections; i++)
		count += source->connections[i].unseen;
	return count;
}

void
source_lose_unseen(struct source *source, unsigned int dead)
{
	/* The kernel shuts down what it finds dead. */
	dead -= dead ? MIN(dead, close_ended(source)) : 0;
	for (unsigned int i = 0; dead > 0 && i < source->plan->connections; i++) {
		dead -= source->connections[i].unseen;
		source->connections[i].unseen = false;
	}
}

/* The server may be about to end by itself, and answers first what it has taken. */
static void
give_a_moment(const struct source *source)
{
	siginfo_t info = {.si_pid = 0};

	for (unsigned int i = 0; source->server.pid != 0 && i < MOMENT_MS / STEP_MS; i++) {
		if (waitid(P_PID, (id_t)source->server.pid, &info, WEXITED | WNOHANG | WNOWAIT) <
			    0 ||
		    info.si_pid != 0)
			return;
		g_usleep(STEP_MS * 1000);
	}
}

/*
 * Of several connections the kernel has given one up, because a request on it was not answered in
 * time.  It would go on with the others, and their server, too, until none is left.  So they end
 * together: then the server ends, and a new one gets them all.
 */
static void
end_together(struct source *source)
{
	if (close_ended(source) == 0)
		return;
	give_a_moment(source);
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (source->connections[i].fd >= 0)
			shutdown(source->connections[i].fd, SHUT_RDWR);
	}
	close_connections(source);
}

static bool
server_is_lost(struct source *source, bool *crashed, char **why)
{
	int status;

	end_together(source);
	if (!server_process_ended(&source->server, &status))
		return false;
	source_listen(source);
	server_process_fini(&source->server);
	close_connections(source);
	*crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	if (WIFSIGNALED(status))
		*why = g_strdup_printf("the server was killed by signal %d (%s)", WTERMSIG(status),
				       strsignal(WTERMSIG(status)));
	else
		*why = g_strdup_printf("the server has ended with status %d", WEXITSTATUS(status));
	return true;
}

static bool
remote_is_lost(struct source *source, bool *crashed, char **why)
{
	unsigned int lost = 0;

	close_ended(source);
	for (unsigned int i = 0; i < source->plan->connections; i++)
		lost += source_lacks(source, i);
	*crashed = false;
	if (lost > 0 && source->plan->connections == 1)
		*why = g_strdup_printf("the connection to %s ended", source->place);
	else if (lost > 0)
		*why = g_strdup_printf("%u of %u connections to %s ended", lost,
				       source->plan->connections, source->place);
	return lost > 0;
}

bool
source_is_lost(struct source *source, bool *crashed, char **why)
{
	return source->plan->remote ? remote_is_lost(source, crashed, why)
				    : server_is_lost(source, crashed, why);
}

void
source_release(struct source *source)
{
	if (!source->plan->remote && source->plan->connections == 1)
		close_connections(source);
}

void
source_break(struct source *source)
{
	if (source->server.pid != 0)
		kill(source->server.pid, SIGKILL);
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (source->connections[i].fd >= 0)
			shutdown(source->connections[i].fd, SHUT_RDWR);
	}
}

void
source_drop(struct source *source, const bool *is_new)
{
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (!is_new[i])
			continue;
		/* The kernel may have it already. */
		shutdown(source->connections[i].fd, SHUT_RDWR);
		close_connection(&source->connections[i]);
	}
	end_server(source);
}

void
source_end(struct source *source)
{
	close_connections(source);
	end_server(source);
}

void
source_fini(struct source *source)
{
	source_end(source);
	g_free(source->connections);
	if (source->image >= 0)
		close(source->image);
	g_free(source->control);
	g_free(source->place);
}
