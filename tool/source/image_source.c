/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/image_source.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/server_supply.h"
#include "tool/nap.h"
#include "tool/source/source_ceph.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	END_PATIENCE_MS = 5000,
	MOMENT_MS = 1000,
};

/* The option of a server whose image is a temporary clone. */
#define TEMPORARY "--temporary=on"

static void
image_source_init(struct source *source)
{
	struct image_source *image = g_new0(struct image_source, 1);

	image->fd = image->supply = -1;
	server_process_init(&image->server);
	source->state = image;
}

static void
image_source_fini(struct source *source)
{
	struct image_source *image = source->state;

	if (image->fd >= 0)
		close(image->fd);
	g_free(image->ceph_fence);
	g_free(image);
}

/* ---- messages of the server */

static void
image_source_take_line(int level, const char *line, void *data)
{
	struct source *source = data;
	struct image_source *image = source->state;
	g_autofree char *path = image_file_path(image->fd);
	g_autofree char *name = image->renamed ? image_file_name(path) : g_strdup(source->place);
	g_autoptr(GString) words = g_string_new(line);
	const char *text;

	/* The server got this path from image_source_find(). */
	g_string_replace(words, path, name, 0);
	text = words->str;
	if (level == LOG_LEVEL_ERROR && image->refusal)
		g_string_append_printf(image->refusal, "%s%s", image->refusal->len ? "; " : "",
				       text);
	else if (level == LOG_LEVEL_ERROR)
		log_error("%s", text);
	else if (level == LOG_LEVEL_WARNING)
		log_warning("%s", text);
	else
		log_info("%s", text);
}

static void
image_source_take_event(const struct event *event, void *data)
{
	struct source *source = data;
	struct image_source *image = source->state;

	if (event->kind == EVENT_READY)
		image->ready = true;
	/* engine/backing/file/lock.h */
	if (event->kind == EVENT_REFUSED && event->error == EAGAIN)
		image->locked = true;
	source_ceph_take_event(source, event);
}

static void
image_source_listen(struct source *source)
{
	struct image_source *image = source->state;
	const struct server_listener listener = {image_source_take_line, image_source_take_event,
						 source};

	server_process_listen(&image->server, &listener);
}

static void
image_source_pass_time(void *data)
{
	image_source_listen(data);
}

/* ---- our own server */

/*
 * The path by which the server opens the image.  It always leads to the file that is held open
 * here, so that the server opens the same file whatever has its name now or a moment later. What is
 * in Ceph has only its name.
 */
static char *
image_source_find(struct source *source, GError **error)
{
	struct image_source *image = source->state;
	bool renamed;
	char *path;

	if (!image_file_is_here(source->place))
		return g_strdup(source->place);
	if (image->fd < 0)
		image->fd = image_file_hold(source->place, error);
	if (image->fd < 0)
		return NULL;
	path = image_file_path(image->fd);
	renamed = !image_file_is_named(source->place, image->fd);
	if (renamed && !image->renamed) {
		g_autofree char *name = image_file_name(path);

		log_warning(
			"%s is no longer the image that was attached, which is still served: %s",
			source->place, name);
	}
	image->renamed = renamed;
	return path;
}

static bool
image_source_start(struct source *source, int socket, GError **error)
{
	struct image_source *image = source->state;
	const struct source_plan *plan = source->plan;
	g_autofree char *path = image_source_find(source, error);
	const struct server_command command = {
		.kind = plan->server,
		.control = source->control,
		.direct_io = source->direct_io,
		.iops_limit = source->iops_limit,
		.bandwidth_limit = source->bandwidth_limit,
		.options = plan->server_options,
		.read_only = source->read_only,
		/* A later user of the image must not prevent a restart.  In Ceph, it may be another
		 * machine's, which took the image over when it found this machine's server gone,
		 * and has written since: force would take the image away from it.  Instead, the
		 * next server fences the last one, if that still has the image. */
		.force = plan->force || (image->served && image_file_is_here(source->place)),
		.ceph_fence = image->ceph_fence,
		.image = path,
	};
	g_auto(GStrv) words = path ? server_command_words(&command) : NULL;

	return words && server_process_start(&image->server, words, socket,
					     plan->server == SERVER_NBDKIT, error);
}

/* Starts a server; ours[] are the sockets to negotiate on, -1 if it could not be started. */
static bool
image_source_start_listening(struct source *source, int *ours, GError **error)
{
	const unsigned int count = source->plan->connections;
	int listener = -1;
	bool started = server_sockets_make(ours, &listener, count, source->listener, error) &&
		       image_source_start(source, listener, error);

	server_sockets_close(&listener, 1);
	if (!started)
		server_sockets_close(ours, count);
	return started;
}

static bool
image_source_start_supplied(struct source *source, GError **error)
{
	struct image_source *image = source->state;
	int theirs = -1;
	bool started = server_supply_make(&image->supply, &theirs, error) &&
		       image_source_start(source, theirs, error);

	server_sockets_close(&theirs, 1);
	if (!started)
		server_sockets_close(&image->supply, 1);
	return started;
}

/* The sockets to negotiate on: to the server that runs, or to a new one. */
static bool
image_source_sockets(struct source *source, int *ours, GError **error)
{
	struct image_source *image = source->state;

	if (source->plan->server == SERVER_NBDKIT)
		return image_source_start_listening(source, ours, error);
	return (image->server.pid != 0 || image_source_start_supplied(source, error)) &&
	       server_supply_pass(image->supply, ours, source->plan->connections, error);
}

static void
image_source_end_server(struct source *source)
{
	struct image_source *image = source->state;

	server_sockets_close(&image->supply, 1);
	server_process_end(&image->server, END_PATIENCE_MS);
	image_source_listen(source);
	server_process_fini(&image->server);
}

/* Prefers the server's own messages, when it has ended, to the error that its end caused here. */
static void
image_source_prefer_refusal(struct source *source, GError **error)
{
	struct image_source *image = source->state;

	image_source_end_server(source);
	if (!image->refusal || !image->refusal->len || !error || !*error)
		return;
	g_clear_error(error);
	failure(error, image->locked ? ETXTBSY : EIO, "%s%s", image->refusal->str,
		image->fenced ? "; the device ends: attach it again" : "");
}

/* Whatever a server does before it has answered, it has told before: that it is ready, and which
 * client of Ceph it is. */
static bool
image_source_knows_server(struct source *source, GError **error)
{
	struct image_source *image = source->state;
	bool tells;

	image_source_listen(source);
	tells = image->ready && image->server.events.fd >= 0;
	return (tells && !image->nameless) ||
	       failure(error, EIO, "the server of %s doesn't tell its guard %s", source->place,
		       tells ? "which client of Ceph it is" : "what it does");
}

static bool
image_source_is_in_server(const struct source *source)
{
	const GPtrArray *options = source->plan->server_options;

	return options &&
	       g_ptr_array_find_with_equal_func((GPtrArray *)options, TEMPORARY, g_str_equal, NULL);
}

/* The next server would begin with an empty clone, under a mounted file system. */
static bool
image_source_is_empty(const struct source *source)
{
	const struct image_source *image = source->state;

	return image->served && image->server.pid == 0 && image_source_is_in_server(source);
}

static bool
image_source_open(struct source *source, GError **error)
{
	struct image_source *image = source->state;
	g_autofree int *ours = g_new(int, source->plan->connections);
	g_autofree struct source_connection **connections = NULL;
	/* It may tell why it takes long. */
	const struct source_pastime pastime = {image_source_pass_time, source};
	const bool runs = image->server.pid != 0;
	/* A new server may have to wait for memory, or for the end of the last one. */
	const unsigned int limit_ms = runs ? SOURCE_LIMIT_MS : 0;
	unsigned int count;
	bool opened;

	/* Those before are of no use. */
	source_close_connections(source);
	if (image->fenced)
		return failure(error, ESHUTDOWN,
			       "another client of Ceph has taken %s from its server, and may have "
			       "written to it: the device ends; attach it again",
			       source->place);
	if (image_source_is_empty(source))
		return failure(error, ESHUTDOWN,
			       "what was written to the temporary clone of %s is lost with its "
			       "server: the device ends; attach it again",
			       source->place);
	connections = source_lacking(source, &count);
	image->refusal = runs ? NULL : g_string_new(NULL);
	if (!runs)
		image->ready = image->locked = image->nameless = false;
	opened = image_source_sockets(source, ours, error) &&
		 source_connections_over_sockets(connections, ours, count, limit_ms, &pastime,
						 error) &&
		 image_source_knows_server(source, error);
	if (!opened) {
		/* All of them, or the next server would seem to lack none. */
		source_close_connections(source);
		image_source_prefer_refusal(source, error);
	}
	if (image->refusal)
		g_string_free(image->refusal, true);
	image->refusal = NULL;
	image->served = image->served || opened;
	return opened;
}

/* ---- its end */

/* Gives the server a moment to end by itself, or to be idle, since it first completes its requests.
 */
static void
image_source_await_end(const struct source *source)
{
	const struct image_source *image = source->state;
	struct pollfd idle = {.fd = image->supply, .events = POLLIN};
	struct nap nap = nap_for(MOMENT_MS);
	siginfo_t info = {.si_pid = 0};

	while (image->server.pid != 0 && poll(&idle, 1, 0) == 0 &&
	       waitid(P_PID, (id_t)image->server.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0 && nap_take(&nap))
		;
}

static bool
image_source_is_lost(struct source *source, bool *crashed, char **why)
{
	struct image_source *image = source->state;
	int status;

	/* The kernel has given up one of several connections, because a request on it was not
	 * answered in time.  It would go on with the others, and so would the server, until none is
	 * left.  Therefore all end together: then the server gets all of them anew, or ends, and
	 * the next one gets them. */
	if (source_close_ended(source) > 0) {
		image_source_await_end(source);
		source_end_connections(source);
	}
	if (!server_process_ended(&image->server, &status)) {
		if (!server_supply_is_idle(&image->supply))
			return false;
		source_close_connections(source);
		*crashed = false;
		*why = g_strdup("the connection to the server has ended");
		return true;
	}
	server_sockets_close(&image->supply, 1);
	image_source_listen(source);
	server_process_fini(&image->server);
	source_close_connections(source);
	/* No next server replaces the socket that one that was killed has left. */
	if (source->control && image_source_is_empty(source))
		unlink(source->control);
	*crashed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	if (WIFSIGNALED(status))
		*why = g_strdup_printf("the server was killed by signal %d (%s)", WTERMSIG(status),
				       strsignal(WTERMSIG(status)));
	else
		*why = g_strdup_printf("the server has ended with status %d", WEXITSTATUS(status));
	return true;
}

static bool
image_source_is_fenced(const struct source *source)
{
	return ((const struct image_source *)source->state)->fenced ||
	       image_source_is_empty(source);
}

static bool
image_source_runs(const struct source *source)
{
	return ((const struct image_source *)source->state)->server.pid != 0;
}

/* The server sees it end if the kernel did not take it. */
static void
image_source_release(struct source *source)
{
	if (source->plan->connections == 1)
		source_close_connections(source);
}

static void
image_source_kill(struct source *source)
{
	struct image_source *image = source->state;

	/* A server that is ended on purpose gets no connections. */
	server_sockets_close(&image->supply, 1);
	if (image->server.pid != 0)
		kill(image->server.pid, SIGKILL);
}

static unsigned int
image_source_poll(const struct source *source, struct pollfd polled[SOURCE_POLLED])
{
	const struct image_source *image = source->state;

	polled[0] = (struct pollfd){.fd = image->server.output.fd, .events = POLLIN};
	polled[1] = (struct pollfd){.fd = image->server.events.fd, .events = POLLIN};
	polled[2] = (struct pollfd){.fd = image->supply, .events = POLLIN};
	return SOURCE_POLLED;
}

/* ---- another guard, another image */

static void
image_source_note_facts(const struct source *source, struct source_facts *facts)
{
	const struct image_source *image = source->state;
	struct stat st;

	facts->ceph_fence = image->ceph_fence;
	if (image->fd >= 0 && fstat(image->fd, &st) == 0)
		facts->image = image_file_identity(&st);
}

static void
image_source_take_facts(struct source *source, const struct source_facts *facts)
{
	struct image_source *image = source->state;

	image->ceph_fence = g_strdup(facts->ceph_fence);
	image->served = true;
}

static bool
image_source_hold_if_same(struct image_source *image, const char *path,
			  const struct image_identity *identity)
{
	struct stat st;

	image->fd = path ? image_file_hold(path, NULL) : -1;
	if (image->fd < 0 || (fstat(image->fd, &st) == 0 && image_file_is(&st, identity)))
		return image->fd >= 0;
	close(image->fd);
	image->fd = -1;
	return false;
}

bool
image_source_adopt(struct source *source, pid_t server, const struct image_identity *identity,
		   GError **error)
{
	/* If the image was renamed or removed, the server still has it open. */
	g_autofree char *opened = image_file_opened_by(server, identity);

	if (image_file_is_here(source->place) &&
	    !image_source_hold_if_same(source->state, source->place, identity) &&
	    !image_source_hold_if_same(source->state, opened, identity))
		return failure(
			error, ENOENT,
			"%s is no longer the image that was attached, and the server that had that image open is gone: "
			"the image can't be found",
			source->place);
	/* The guard may have been killed before it recorded which client of Ceph the server is. */
	if (server > 0)
		source_ceph_ask(source, NULL);
	return true;
}

void
image_source_swap(struct source *source, struct source *other)
{
	struct image_source *image = source->state, *others = other->state;
	char *place = source->place;
	int fd = image->fd;

	source->place = other->place;
	image->fd = others->fd;
	other->place = place;
	others->fd = fd;
	image->renamed = others->renamed = false;
	source->read_only = true;
	g_clear_pointer(&image->ceph_fence, g_free);
}

const struct source_kind image_source_kind = {
	.noun = "server",
	.init = image_source_init,
	.fini = image_source_fini,
	.open = image_source_open,
	.is_lost = image_source_is_lost,
	.is_fenced = image_source_is_fenced,
	.is_in_server = image_source_is_in_server,
	.runs = image_source_runs,
	.listen = image_source_listen,
	.release = image_source_release,
	.kill = image_source_kill,
	.drop = image_source_end_server,
	.end = image_source_end_server,
	.note_facts = image_source_note_facts,
	.take_facts = image_source_take_facts,
	.poll = image_source_poll,
};
