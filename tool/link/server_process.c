/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/server_process.h"

#include "tool/failure.h"
#include "tool/nap.h"
#include "tool/link/server_command.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LONGEST_LINE = 64 << 10,
};

/* Room for any process ID. */
#define PID_ROOM "0123456789"

void
server_process_init(struct server_process *server)
{
	*server = (struct server_process){.output.fd = -1, .events.fd = -1};
}

/* The value of a variable of the new environment, to be written in the new process. */
struct pid_text {
	char *digits; /* as long as PID_ROOM; or NULL */
};

/* Runs between fork() and exec(), where snprintf() is not allowed. */
static void
write_pid(char *text, pid_t pid)
{
	pid_t unit = 1;

	while (pid / unit >= 10)
		unit *= 10;
	for (; unit > 0; unit /= 10)
		*text++ = (char)('0' + pid / unit % 10);
	*text = '\0';
}

/* Runs between fork() and exec(). */
static void
become_server(void *data)
{
	const struct pid_text *text = data;
	sigset_t blocked;

	if (text->digits)
		write_pid(text->digits, getpid());
	setsid();
	/* These signals would make nbdkit, which listens, answer requests with errors.  The kernel
	 * takes these for errors of the disk.  nbdkit ends when its connections have ended.
	 * nbdloopd takes only signals that are not blocked. */
	sigemptyset(&blocked);
	if (text->digits) {
		sigaddset(&blocked, SIGTERM);
		sigaddset(&blocked, SIGINT);
		sigaddset(&blocked, SIGHUP);
	}
	sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/* A listening socket is announced as systemd does it, which includes the process ID of the server:
 * sd_listen_fds(3). */
static char **
make_environment(bool listening, struct pid_text *text)
{
	char **environment = g_get_environ();

	text->digits = NULL;
	if (!listening)
		return environment;
	environment = g_environ_setenv(environment, "LISTEN_FDS", "1", true);
	environment = g_environ_setenv(environment, "LISTEN_PID", PID_ROOM, true);
	for (char **at = environment; !text->digits; at++) {
		if (g_str_has_prefix(*at, "LISTEN_PID="))
			text->digits = *at + strlen("LISTEN_PID=");
	}
	return environment;
}

bool
server_process_start(struct server_process *server, char **words, int socket, bool listening,
		     GError **error)
{
	static const int targets[] = {SERVER_EVENTS, SERVER_SOCKET};
	struct pid_text text;
	g_auto(GStrv) environment = make_environment(listening, &text);
	g_autoptr(GError) why = NULL;
	int events[2], sources[2];
	bool started;

	if (pipe2(events, O_CLOEXEC) < 0)
		return failure_errno(error, errno, "a pipe can't be made");
	sources[0] = events[1];
	sources[1] = socket;
	started = g_spawn_async_with_pipes_and_fds(
		"/", (const char *const *)words, (const char *const *)environment,
		G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_FILE_AND_ARGV_ZERO,
		become_server, &text, -1, -1, -1, sources, targets, socket >= 0 ? 2 : 1,
		&server->pid, NULL, NULL, &server->output.fd, &why);
	close(events[1]);
	if (!started) {
		close(events[0]);
		return failure(error, ENOENT, "the server %s can't be started: %s", words[0],
			       why->message);
	}
	server->events.fd = events[0];
	fcntl(server->events.fd, F_SETFL, O_NONBLOCK);
	fcntl(server->output.fd, F_SETFL, O_NONBLOCK);
	fcntl(server->output.fd, F_SETFD, FD_CLOEXEC);
	server->output.unread = g_string_new(NULL);
	server->events.unread = g_string_new(NULL);
	return true;
}

/* The text after "nbdloopd: ", "nbdkit: ", or "nbdkit: loop[1]: ". */
static const char *
skip_name(const char *line)
{
	const char *end;

	if (g_str_has_prefix(line, "nbdloopd: "))
		return line + strlen("nbdloopd: ");
	if (!g_str_has_prefix(line, "nbdkit: "))
		return line;
	line += strlen("nbdkit: ");
	end = g_str_has_prefix(line, "loop") ? strchr(line, ' ') : NULL;
	return end && end[-1] == ':' ? end + 1 : line;
}

/* A line as servers word it: "nbdloopd: warning: TEXT". nbdkit's plugins may say "error: warning:
 * TEXT". */
static bool
pass_line(const char *line, const struct server_listener *listener)
{
	static const struct {
		const char *prefix;
		int level;
	} levels[] = {{"error: warning: ", LOG_LEVEL_WARNING},
		      {"error: ", LOG_LEVEL_ERROR},
		      {"warning: ", LOG_LEVEL_WARNING},
		      {"", LOG_LEVEL_INFO}};
	size_t i = 0;

	line = skip_name(line);
	while (!g_str_has_prefix(line, levels[i].prefix))
		i++;
	listener->line(levels[i].level, line + strlen(levels[i].prefix), listener->data);
	return true;
}

/* The counterpart of common/event.c.  An event that only a newer server knows is left out.  False:
 * the line is no event. */
static bool
pass_event(const char *line, const struct server_listener *listener)
{
	json_auto_t *object = json_loads(line, 0, NULL);
	const char *name = json_string_value(json_object_get(object, "event"));
	struct event event = {
		.subject = json_string_value(json_object_get(object, "subject")),
		.client = json_string_value(json_object_get(object, "client")),
		.text = json_string_value(json_object_get(object, "text")),
		.error = (int)json_integer_value(json_object_get(object, "errno")),
	};

	while (name && event.kind < EVENT_KINDS && strcmp(event_names[event.kind], name) != 0)
		event.kind++;
	if (name && event.kind < EVENT_KINDS)
		listener->event(&event, listener->data);
	return name != NULL;
}

static void
lines_close(struct server_lines *lines)
{
	if (lines->fd >= 0)
		close(lines->fd);
	lines->fd = -1;
}

/* Passes on those that are complete; with `all`, or if it is very long, also the last one. */
static void
lines_pass(struct server_lines *lines, bool all,
	   bool (*pass)(const char *line, const struct server_listener *listener),
	   const struct server_listener *listener)
{
	char *end;

	while ((end = strchr(lines->unread->str, '\n')) ||
	       (lines->unread->len > 0 && (all || lines->unread->len > LONGEST_LINE))) {
		size_t length = end ? (size_t)(end - lines->unread->str) : lines->unread->len;
		g_autofree char *line = g_strndup(lines->unread->str, length);

		g_string_erase(lines->unread, 0, (gssize)(length + (end ? 1 : 0)));
		if (!pass(line, listener)) {
			lines_close(lines);
			g_string_truncate(lines->unread, 0);
		}
	}
}

static void
lines_read(struct server_lines *lines,
	   bool (*pass)(const char *line, const struct server_listener *listener),
	   const struct server_listener *listener)
{
	char bytes[4096];
	ssize_t n = 0;

	while (lines->fd >= 0 && (n = read(lines->fd, bytes, sizeof(bytes))) > 0) {
		g_string_append_len(lines->unread, bytes, n);
		lines_pass(lines, false, pass, listener);
	}
	if (lines->fd >= 0 && n == 0) {
		lines_pass(lines, true, pass, listener);
		lines_close(lines);
	}
}

void
server_process_listen(struct server_process *server, const struct server_listener *listener)
{
	lines_read(&server->output, pass_line, listener);
	lines_read(&server->events, pass_event, listener);
}

bool
server_process_ended(struct server_process *server, int *status)
{
	if (server->pid == 0)
		return false;
	if (waitpid(server->pid, status, WNOHANG) != server->pid)
		return false;
	server->pid = 0;
	return true;
}

void
server_process_end(struct server_process *server, unsigned int patience)
{
	struct nap nap = nap_for(patience);
	int status;

	while (server->pid != 0 && !server_process_ended(server, &status)) {
		if (!nap_take(&nap)) {
			kill(server->pid, SIGKILL);
			waitpid(server->pid, &status, 0);
			server->pid = 0;
		}
	}
}

void
server_process_fini(struct server_process *server)
{
	lines_close(&server->output);
	lines_close(&server->events);
	if (server->output.unread)
		g_string_free(server->output.unread, true);
	if (server->events.unread)
		g_string_free(server->events.unread, true);
	server_process_init(server);
}

/* ---- connections to one that takes a listening socket */

static bool
server_connect_all(int *ours, const struct sockaddr_un *address, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		ours[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (ours[i] < 0 ||
		    connect(ours[i], (const struct sockaddr *)address, sizeof(*address)) < 0)
			return false;
	}
	return true;
}

/* A listening socket, and connections to it.  Only root can reach its path, and it is removed once
 * they are made, so no other process can connect to the server. */
bool
server_sockets_make(int *ours, int *listener, unsigned int count, const char *name, GError **error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	bool made;

	for (unsigned int i = 0; i < count; i++)
		ours[i] = -1;
	g_strlcpy(address.sun_path, name, sizeof(address.sun_path));
	unlink(address.sun_path);
	*listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	made = *listener >= 0 &&
	       bind(*listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(*listener, (int)count) == 0 && server_connect_all(ours, &address, count);
	if (!made)
		failure_errno(error, errno, "the sockets to a server can't be made");
	unlink(address.sun_path);
	return made;
}

void
server_sockets_close(int *sockets, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
		sockets[i] = -1;
	}
}
