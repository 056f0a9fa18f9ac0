/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/upstream.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/guard/guard_files.h"
#include "tool/guard/upstream_ceph.h"
#include "tool/guard/upstream_remote.h"
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
upstream_init(struct upstream *upstream, const struct upstream_plan *plan, char *control)
{
	*upstream = (struct upstream){
		.plan = plan,
		.place = g_strdup(plan->place),
		.image = -1,
		.supply = -1,
		.direct_io = plan->direct_io,
		.iops_limit = plan->iops_limit,
		.bandwidth_limit = plan->bandwidth_limit,
		.control = control,
		.connections = g_new0(struct upstream_connection, plan->connections),
	};
	server_process_init(&upstream->server);
	if (plan->remote)
		upstream->servers = nbd_uri_servers(plan->place, NULL);
	for (unsigned int i = 0; i < plan->connections; i++)
		upstream->connections[i].fd = -1;
}

/* ---- messages of the server */

/* The text with the image's name in place of the path that the server got from find_image(). Caller
 * frees. */
static char *
put_image_name(const struct upstream *upstream, const char *text)
{
	GString *words = g_string_new(text);
	g_autofree char *path = image_file_path(upstream->image);
	g_autofree char *name =
		upstream->renamed ? image_file_name(path) : g_strdup(upstream->place);

	g_string_replace(words, path, name, 0);
	return g_string_free(words, false);
}

static void
take_server_line(int level, const char *line, void *data)
{
	struct upstream *upstream = data;
	g_autofree char *text = put_image_name(upstream, line);

	if (level == LOG_LEVEL_ERROR && upstream->refusal)
		g_string_append_printf(upstream->refusal, "%s%s",
				       upstream->refusal->len ? "; " : "", text);
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
	struct upstream *upstream = data;

	if (event->kind == EVENT_READY)
		upstream->ready = true;
	/* engine/backing/file/lock.h */
	if (event->kind == EVENT_REFUSED && event->error == EAGAIN)
		upstream->locked = true;
	upstream_ceph_take_event(upstream, event);
}

void
upstream_pass_output(struct upstream *upstream)
{
	const struct server_listener listener = {take_server_line, take_server_event, upstream};

	server_process_listen(&upstream->server, &listener);
}

static void
pass_output(void *data)
{
	upstream_pass_output(data);
}

/* ---- our own server */

/*
 * The path by which the server opens the image.  It always leads to the file that is held open
 * here, so that the server opens the same file whatever has its name now or a moment later. What is
 * in Ceph has only its name.
 */
static char *
find_image(struct upstream *upstream, GError **error)
{
	bool renamed;
	char *path;

	if (image_file_in_ceph(upstream->place))
		return g_strdup(upstream->place);
	if (upstream->image < 0)
		upstream->image = image_file_hold(upstream->place, error);
	if (upstream->image < 0)
		return NULL;
	path = image_file_path(upstream->image);
	renamed = !image_file_is_named(upstream->place, upstream->image);
	if (renamed && !upstream->renamed) {
		g_autofree char *name = image_file_name(path);

		log_warning(
			"%s is no longer the image that was attached, which is still served: %s",
			upstream->place, name);
	}
	upstream->renamed = renamed;
	return path;
}

/*
 * A later user of the image must not prevent a restart.  In Ceph, it may be another machine's,
 * which took the image over when it found this machine's server gone, and has written since: force
 * would take the image away from it.  Instead, the next server fences the last one, if that still
 * has the image.
 */
static bool
insists(const struct upstream *upstream)
{
	return upstream->plan->force || (upstream->served && !image_file_in_ceph(upstream->place));
}

static bool
start_process(struct upstream *upstream, int socket, GError **error)
{
	const struct upstream_plan *plan = upstream->plan;
	g_autofree char *image = find_image(upstream, error);
	const struct server_command command = {
		.kind = plan->server,
		.control = upstream->control,
		.direct_io = upstream->direct_io,
		.iops_limit = upstream->iops_limit,
		.bandwidth_limit = upstream->bandwidth_limit,
		.options = plan->server_options,
		.read_only = upstream->read_only,
		.force = insists(upstream),
		.in_ceph = image_file_in_ceph(upstream->place),
		.ceph_fence = upstream->ceph_fence,
		.image = image,
	};
	g_auto(GStrv) words = image ? server_command_words(&command) : NULL;

	return words && server_process_start(&upstream->server, words, socket,
					     plan->server == SERVER_NBDKIT, error);
}

/* Starts a server; ours[] are the sockets to negotiate on, -1 if it could not be started. */
static bool
start_listening_server(struct upstream *upstream, int *ours, GError **error)
{
	const unsigned int count = upstream->plan->connections;
	g_autofree char *name = guard_files_path(NULL, getpid(), "nbd");
	int listener = -1;
	bool started = server_sockets_make(ours, &listener, count, name, error) &&
		       start_process(upstream, listener, error);

	server_sockets_close(&listener, 1);
	if (!started)
		server_sockets_close(ours, count);
	return started;
}

static bool
start_supplied_server(struct upstream *upstream, GError **error)
{
	int theirs = -1;
	bool started = server_supply_make(&upstream->supply, &theirs, error) &&
		       start_process(upstream, theirs, error);

	server_supply_close(&theirs);
	if (!started)
		server_supply_close(&upstream->supply);
	return started;
}

/* The sockets to negotiate on: to the server that runs, or to a new one. */
static bool
get_sockets(struct upstream *upstream, int *ours, GError **error)
{
	if (upstream->plan->server == SERVER_NBDKIT)
		return start_listening_server(upstream, ours, error);
	return (upstream->server.pid != 0 || start_supplied_server(upstream, error)) &&
	       server_supply_pass(upstream->supply, ours, upstream->plan->connections, error);
}

static void
end_server(struct upstream *upstream)
{
	server_supply_close(&upstream->supply);
	server_process_end(&upstream->server, END_PATIENCE_MS);
	upstream_pass_output(upstream);
	server_process_fini(&upstream->server);
}

/* Prefers the server's own messages, when it has ended, to the error that its end caused here. */
static void
prefer_refusal(struct upstream *upstream, GError **error)
{
	end_server(upstream);
	if (!upstream->refusal || !upstream->refusal->len || !error || !*error)
		return;
	g_clear_error(error);
	failure(error, upstream->locked ? ETXTBSY : EIO, "%s%s", upstream->refusal->str,
		upstream->fenced ? "; the device ends: attach it again" : "");
}

/* Whatever a server does before it has answered, it has told before: that it is ready, and which
 * client of Ceph it is. */
static bool
knows_server(struct upstream *upstream, GError **error)
{
	bool tells;

	upstream_pass_output(upstream);
	tells = upstream->ready && upstream->server.events.fd >= 0;
	return (tells && !upstream->nameless) ||
	       failure(error, EIO, "the server of %s doesn't tell its guard %s", upstream->place,
		       tells ? "which client of Ceph it is" : "what it does");
}

static bool
open_server(struct upstream *upstream, GError **error)
{
	g_autofree int *ours = g_new(int, upstream->plan->connections);
	g_autofree struct upstream_connection **connections = NULL;
	/* It may tell why it takes long. */
	const struct upstream_pastime pastime = {pass_output, upstream};
	const bool runs = upstream->server.pid != 0;
	/* A new server may have to wait for memory, or for the end of the last one. */
	const unsigned int limit_ms = runs ? UPSTREAM_LIMIT_MS : 0;
	unsigned int count;
	bool opened;

	/* Those before are of no use. */
	upstream_close_connections(upstream);
	if (upstream->fenced)
		return failure(error, ESHUTDOWN,
			       "another client of Ceph has taken %s from its server, and may have "
			       "written to it: the device ends; attach it again",
			       upstream->place);
	connections = upstream_lacking(upstream, &count);
	upstream->refusal = runs ? NULL : g_string_new(NULL);
	if (!runs)
		upstream->ready = upstream->locked = upstream->nameless = false;
	opened = get_sockets(upstream, ours, error) &&
		 upstream_connections_over_sockets(connections, ours, count, limit_ms, &pastime,
						   error) &&
		 knows_server(upstream, error);
	if (!opened) {
		/* All of them, or the next server would seem to lack none. */
		upstream_close_connections(upstream);
		prefer_refusal(upstream, error);
	}
	if (upstream->refusal)
		g_string_free(upstream->refusal, true);
	upstream->refusal = NULL;
	return opened;
}

/* ---- ours or a remote one */

bool
upstream_open(struct upstream *upstream, GError **error)
{
	bool opened = upstream->plan->remote ? upstream_remote_open(upstream, error)
					     : open_server(upstream, error);

	upstream->served = upstream->served || opened;
	return opened;
}

/* ---- another image */

void
upstream_init_trial(struct upstream *trial, const struct upstream *upstream, const char *image)
{
	upstream_init(trial, upstream->plan, NULL);
	g_free(trial->place);
	trial->place = g_strdup(image);
	trial->direct_io = upstream->direct_io;
	trial->iops_limit = upstream->iops_limit;
	trial->bandwidth_limit = upstream->bandwidth_limit;
	trial->read_only = true;
}

void
upstream_swap_image(struct upstream *upstream, struct upstream *other)
{
	char *place = upstream->place;
	int image = upstream->image;

	upstream->place = other->place;
	upstream->image = other->image;
	other->place = place;
	other->image = image;
	upstream->renamed = other->renamed = false;
	upstream->read_only = true;
	g_clear_pointer(&upstream->ceph_fence, g_free);
}

/* ---- its end */

/* Gives the server a moment to end by itself, or to be idle, since it first completes its requests.
 */
static void
wait_for_own_end(const struct upstream *upstream)
{
	struct pollfd idle = {.fd = upstream->supply, .events = POLLIN};
	struct nap nap = nap_for(MOMENT_MS);
	siginfo_t info = {.si_pid = 0};

	while (upstream->server.pid != 0 && poll(&idle, 1, 0) == 0 &&
	       waitid(P_PID, (id_t)upstream->server.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0 && nap_take(&nap))
		;
}

/*
 * The kernel has given up one of several connections, because a request on it was not answered in
 * time.  It would go on with the others, and so would the server, until none is left.  Therefore
 * all end together: then the server gets all of them anew, or ends, and the next one gets them.
 */
static void
end_all_connections(struct upstream *upstream)
{
	if (upstream_close_ended(upstream) == 0)
		return;
	wait_for_own_end(upstream);
	upstream_end_connections(upstream);
}

static bool
server_is_lost(struct upstream *upstream, bool *crashed, char **why)
{
	int status;

	end_all_connections(upstream);
	if (!server_process_ended(&upstream->server, &status)) {
		if (!server_supply_is_idle(&upstream->supply))
			return false;
		upstream_close_connections(upstream);
		*crashed = false;
		*why = g_strdup("the connection to the server has ended");
		return true;
	}
	server_supply_close(&upstream->supply);
	upstream_pass_output(upstream);
	server_process_fini(&upstream->server);
	upstream_close_connections(upstream);
	*crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	if (WIFSIGNALED(status))
		*why = g_strdup_printf("the server was killed by signal %d (%s)", WTERMSIG(status),
				       strsignal(WTERMSIG(status)));
	else
		*why = g_strdup_printf("the server has ended with status %d", WEXITSTATUS(status));
	return true;
}

bool
upstream_is_lost(struct upstream *upstream, bool *crashed, char **why)
{
	return upstream->plan->remote ? upstream_remote_is_lost(upstream, crashed, why)
				      : server_is_lost(upstream, crashed, why);
}

/* What a connection has left before the reserve, in which it is replaced. */
static uint64_t
left_of(const struct upstream_connection *connection)
{
	const uint64_t left = upstream_connection_bytes_left(connection),
		       reserve = connection->most_bytes / RESERVE_PART;

	return left == UINT64_MAX ? left : left - MIN(left, reserve);
}

unsigned int
upstream_used_up(const struct upstream *upstream, int *next_ms)
{
	uint64_t least = UINT64_MAX;
	unsigned int count = 0;

	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		const uint64_t left = left_of(&upstream->connections[i]);

		count += left == 0;
		least = MIN(least, left);
	}
	*next_ms = least == UINT64_MAX
			   ? -1
			   : (int)CLAMP(least / FASTEST_PER_MS, SOONEST_LOOK_MS, LATEST_LOOK_MS);
	return count;
}

void
upstream_end_used_up(struct upstream *upstream)
{
	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		struct upstream_connection *connection = &upstream->connections[i];

		if (left_of(connection) > 0)
			continue;
		shutdown(connection->fd, SHUT_RDWR);
		upstream_connection_close(connection);
	}
}

void
upstream_release(struct upstream *upstream)
{
	if (!upstream->plan->remote && upstream->plan->connections == 1)
		upstream_close_connections(upstream);
}

void
upstream_break(struct upstream *upstream)
{
	/* A server that is ended on purpose gets no connections. */
	server_supply_close(&upstream->supply);
	if (upstream->server.pid != 0)
		kill(upstream->server.pid, SIGKILL);
	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		if (upstream->connections[i].fd >= 0)
			shutdown(upstream->connections[i].fd, SHUT_RDWR);
	}
}

void
upstream_drop(struct upstream *upstream, const bool *is_new)
{
	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		if (!is_new[i])
			continue;
		/* The kernel may have taken it already. */
		shutdown(upstream->connections[i].fd, SHUT_RDWR);
		upstream_connection_close(&upstream->connections[i]);
	}
	end_server(upstream);
}

void
upstream_end(struct upstream *upstream)
{
	upstream_close_connections(upstream);
	end_server(upstream);
	proxies_end(&upstream->proxies);
}

void
upstream_fini(struct upstream *upstream)
{
	upstream_end(upstream);
	g_free(upstream->connections);
	if (upstream->image >= 0)
		close(upstream->image);
	g_clear_pointer(&upstream->servers, g_ptr_array_unref);
	g_free(upstream->control);
	g_free(upstream->ceph_fence);
	g_free(upstream->place);
}
