/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/source/source_ceph.h"
#include "tool/source/source_remote.h"
#include "tool/nap.h"
#include "tool/link/server_supply.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	END_PATIENCE_MS = 5000,
	MOMENT_MS = 1000,
	RESERVE_PART = 8, /* a connection is replaced when it has this part of its bytes left */
	/* No connection is faster, 16 GB/s; so the reserve lasts for a second at least. */
	FASTEST_PER_MS = 16 << 20,
	SOONEST_LOOK_MS = 1000,
	LATEST_LOOK_MS = 60000,
};

void
source_init(struct source *source, const struct source_plan *plan, char *control, char *listener)
{
	*source = (struct source){
		.plan = plan,
		.place = g_strdup(plan->place),
		.image = -1,
		.supply = -1,
		.direct_io = plan->direct_io,
		.iops_limit = plan->iops_limit,
		.bandwidth_limit = plan->bandwidth_limit,
		.control = control,
		.listener = listener,
		.connections = g_new0(struct source_connection, plan->connections),
	};
	server_process_init(&source->server);
	if (plan->remote)
		source->servers = nbd_uri_servers(plan->place, NULL);
	for (unsigned int i = 0; i < plan->connections; i++)
		source->connections[i].fd = -1;
}

/* ---- messages of the server */

/* The text with the image's name in place of the path that the server got from find_image(). Caller
 * frees. */
static char *
put_image_name(const struct source *source, const char *text)
{
	GString *words = g_string_new(text);
	g_autofree char *path = image_file_path(source->image);
	g_autofree char *name = source->renamed ? image_file_name(path) : g_strdup(source->place);

	g_string_replace(words, path, name, 0);
	return g_string_free(words, false);
}

static void
take_server_line(int level, const char *line, void *data)
{
	struct source *source = data;
	g_autofree char *text = put_image_name(source, line);

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

static void
take_server_event(const struct event *event, void *data)
{
	struct source *source = data;

	if (event->kind == EVENT_READY)
		source->ready = true;
	/* engine/backing/file/lock.h */
	if (event->kind == EVENT_REFUSED && event->error == EAGAIN)
		source->locked = true;
	source_ceph_take_event(source, event);
}

void
source_pass_output(struct source *source)
{
	const struct server_listener listener = {take_server_line, take_server_event, source};

	server_process_listen(&source->server, &listener);
}

static void
pass_output(void *data)
{
	source_pass_output(data);
}

/* ---- our own server */

/*
 * The path by which the server opens the image.  It always leads to the file that is held open
 * here, so that the server opens the same file whatever has its name now or a moment later. What is
 * in Ceph has only its name.
 */
static char *
find_image(struct source *source, GError **error)
{
	bool renamed;
	char *path;

	if (image_file_in_ceph(source->place))
		return g_strdup(source->place);
	if (source->image < 0)
		source->image = image_file_hold(source->place, error);
	if (source->image < 0)
		return NULL;
	path = image_file_path(source->image);
	renamed = !image_file_is_named(source->place, source->image);
	if (renamed && !source->renamed) {
		g_autofree char *name = image_file_name(path);

		log_warning(
			"%s is no longer the image that was attached, which is still served: %s",
			source->place, name);
	}
	source->renamed = renamed;
	return path;
}

/*
 * A later user of the image must not prevent a restart.  In Ceph, it may be another machine's,
 * which took the image over when it found this machine's server gone, and has written since: force
 * would take the image away from it.  Instead, the next server fences the last one, if that still
 * has the image.
 */
static bool
source_insists(const struct source *source)
{
	return source->plan->force || (source->served && !image_file_in_ceph(source->place));
}

static bool
start_process(struct source *source, int socket, GError **error)
{
	const struct source_plan *plan = source->plan;
	g_autofree char *image = find_image(source, error);
	const struct server_command command = {
		.kind = plan->server,
		.control = source->control,
		.direct_io = source->direct_io,
		.iops_limit = source->iops_limit,
		.bandwidth_limit = source->bandwidth_limit,
		.options = plan->server_options,
		.read_only = source->read_only,
		.force = source_insists(source),
		.in_ceph = image_file_in_ceph(source->place),
		.ceph_fence = source->ceph_fence,
		.image = image,
	};
	g_auto(GStrv) words = image ? server_command_words(&command) : NULL;

	return words && server_process_start(&source->server, words, socket,
					     plan->server == SERVER_NBDKIT, error);
}

/* Starts a server; ours[] are the sockets to negotiate on, -1 if it could not be started. */
static bool
start_listening_server(struct source *source, int *ours, GError **error)
{
	const unsigned int count = source->plan->connections;
	int listener = -1;
	bool started = server_sockets_make(ours, &listener, count, source->listener, error) &&
		       start_process(source, listener, error);

	server_sockets_close(&listener, 1);
	if (!started)
		server_sockets_close(ours, count);
	return started;
}

static bool
start_supplied_server(struct source *source, GError **error)
{
	int theirs = -1;
	bool started = server_supply_make(&source->supply, &theirs, error) &&
		       start_process(source, theirs, error);

	server_supply_close(&theirs);
	if (!started)
		server_supply_close(&source->supply);
	return started;
}

/* The sockets to negotiate on: to the server that runs, or to a new one. */
static bool
get_sockets(struct source *source, int *ours, GError **error)
{
	if (source->plan->server == SERVER_NBDKIT)
		return start_listening_server(source, ours, error);
	return (source->server.pid != 0 || start_supplied_server(source, error)) &&
	       server_supply_pass(source->supply, ours, source->plan->connections, error);
}

static void
source_end_server(struct source *source)
{
	server_supply_close(&source->supply);
	server_process_end(&source->server, END_PATIENCE_MS);
	source_pass_output(source);
	server_process_fini(&source->server);
}

/* Prefers the server's own messages, when it has ended, to the error that its end caused here. */
static void
prefer_refusal(struct source *source, GError **error)
{
	source_end_server(source);
	if (!source->refusal || !source->refusal->len || !error || !*error)
		return;
	g_clear_error(error);
	failure(error, source->locked ? ETXTBSY : EIO, "%s%s", source->refusal->str,
		source->fenced ? "; the device ends: attach it again" : "");
}

/* Whatever a server does before it has answered, it has told before: that it is ready, and which
 * client of Ceph it is. */
static bool
knows_server(struct source *source, GError **error)
{
	bool tells;

	source_pass_output(source);
	tells = source->ready && source->server.events.fd >= 0;
	return (tells && !source->nameless) ||
	       failure(error, EIO, "the server of %s doesn't tell its guard %s", source->place,
		       tells ? "which client of Ceph it is" : "what it does");
}

static bool
open_server(struct source *source, GError **error)
{
	g_autofree int *ours = g_new(int, source->plan->connections);
	g_autofree struct source_connection **connections = NULL;
	/* It may tell why it takes long. */
	const struct source_pastime pastime = {pass_output, source};
	const bool runs = source->server.pid != 0;
	/* A new server may have to wait for memory, or for the end of the last one. */
	const unsigned int limit_ms = runs ? SOURCE_LIMIT_MS : 0;
	unsigned int count;
	bool opened;

	/* Those before are of no use. */
	source_close_connections(source);
	if (source->fenced)
		return failure(error, ESHUTDOWN,
			       "another client of Ceph has taken %s from its server, and may have "
			       "written to it: the device ends; attach it again",
			       source->place);
	connections = source_lacking(source, &count);
	source->refusal = runs ? NULL : g_string_new(NULL);
	if (!runs)
		source->ready = source->locked = source->nameless = false;
	opened = get_sockets(source, ours, error) &&
		 source_connections_over_sockets(connections, ours, count, limit_ms, &pastime,
						 error) &&
		 knows_server(source, error);
	if (!opened) {
		/* All of them, or the next server would seem to lack none. */
		source_close_connections(source);
		prefer_refusal(source, error);
	}
	if (source->refusal)
		g_string_free(source->refusal, true);
	source->refusal = NULL;
	return opened;
}

/* ---- ours or a remote one */

bool
source_open(struct source *source, GError **error)
{
	bool opened = source->plan->remote ? source_remote_open(source, error)
					   : open_server(source, error);

	source->served = source->served || opened;
	return opened;
}

/* ---- another image */

void
source_init_trial(struct source *trial, const struct source *source, const char *image)
{
	source_init(trial, source->plan, NULL, g_strdup(source->listener));
	g_free(trial->place);
	trial->place = g_strdup(image);
	trial->direct_io = source->direct_io;
	trial->iops_limit = source->iops_limit;
	trial->bandwidth_limit = source->bandwidth_limit;
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
	g_clear_pointer(&source->ceph_fence, g_free);
}

/* ---- its end */

/* Gives the server a moment to end by itself, or to be idle, since it first completes its requests.
 */
static void
wait_for_own_end(const struct source *source)
{
	struct pollfd idle = {.fd = source->supply, .events = POLLIN};
	struct nap nap = nap_for(MOMENT_MS);
	siginfo_t info = {.si_pid = 0};

	while (source->server.pid != 0 && poll(&idle, 1, 0) == 0 &&
	       waitid(P_PID, (id_t)source->server.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0 && nap_take(&nap))
		;
}

/*
 * The kernel has given up one of several connections, because a request on it was not answered in
 * time.  It would go on with the others, and so would the server, until none is left.  Therefore
 * all end together: then the server gets all of them anew, or ends, and the next one gets them.
 */
static void
end_all_connections(struct source *source)
{
	if (source_close_ended(source) == 0)
		return;
	wait_for_own_end(source);
	source_end_connections(source);
}

static bool
server_is_lost(struct source *source, bool *crashed, char **why)
{
	int status;

	end_all_connections(source);
	if (!server_process_ended(&source->server, &status)) {
		if (!server_supply_is_idle(&source->supply))
			return false;
		source_close_connections(source);
		*crashed = false;
		*why = g_strdup("the connection to the server has ended");
		return true;
	}
	server_supply_close(&source->supply);
	source_pass_output(source);
	server_process_fini(&source->server);
	source_close_connections(source);
	*crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	if (WIFSIGNALED(status))
		*why = g_strdup_printf("the server was killed by signal %d (%s)", WTERMSIG(status),
				       strsignal(WTERMSIG(status)));
	else
		*why = g_strdup_printf("the server has ended with status %d", WEXITSTATUS(status));
	return true;
}

bool
source_is_lost(struct source *source, bool *crashed, char **why)
{
	return source->plan->remote ? source_remote_is_lost(source, crashed, why)
				    : server_is_lost(source, crashed, why);
}

/* What a connection has left before the reserve, in which it is replaced. */
static uint64_t
left_of(const struct source_connection *connection)
{
	const uint64_t left = source_connection_bytes_left(connection),
		       reserve = connection->most_bytes / RESERVE_PART;

	return left == UINT64_MAX ? left : left - MIN(left, reserve);
}

unsigned int
source_used_up(const struct source *source, int *next_ms)
{
	uint64_t least = UINT64_MAX;
	unsigned int count = 0;

	for (unsigned int i = 0; i < source->plan->connections; i++) {
		const uint64_t left = left_of(&source->connections[i]);

		count += left == 0;
		least = MIN(least, left);
	}
	*next_ms = least == UINT64_MAX
			   ? -1
			   : (int)CLAMP(least / FASTEST_PER_MS, SOONEST_LOOK_MS, LATEST_LOOK_MS);
	return count;
}

void
source_end_used_up(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		struct source_connection *connection = &source->connections[i];

		if (left_of(connection) > 0)
			continue;
		shutdown(connection->fd, SHUT_RDWR);
		source_connection_close(connection);
	}
}

void
source_release(struct source *source)
{
	if (!source->plan->remote && source->plan->connections == 1)
		source_close_connections(source);
}

void
source_break(struct source *source)
{
	/* A server that is ended on purpose gets no connections. */
	server_supply_close(&source->supply);
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
		/* The kernel may have taken it already. */
		shutdown(source->connections[i].fd, SHUT_RDWR);
		source_connection_close(&source->connections[i]);
	}
	source_end_server(source);
}

void
source_end(struct source *source)
{
	source_close_connections(source);
	source_end_server(source);
	proxies_end(&source->proxies);
}

void
source_fini(struct source *source)
{
	source_end(source);
	g_free(source->connections);
	if (source->image >= 0)
		close(source->image);
	g_clear_pointer(&source->servers, g_ptr_array_unref);
	g_free(source->control);
	g_free(source->listener);
	g_free(source->ceph_fence);
	g_free(source->place);
}
