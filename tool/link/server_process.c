/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/server_process.h"

#include "tool/failure.h"
#include "tool/nap.h"
#include "tool/link/server_command.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LONGEST_LINE = 8192,
};

/* Room for any process ID. */
#define PID_ROOM "0123456789"

void
server_process_init(struct server_process *server)
{
	*server = (struct server_process){.output = -1};
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
	static const int target = SERVER_SOCKET;
	struct pid_text text;
	g_auto(GStrv) environment = make_environment(listening, &text);
	g_autoptr(GError) why = NULL;

	if (!g_spawn_async_with_pipes_and_fds(
		    "/", (const char *const *)words, (const char *const *)environment,
		    G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL |
			    G_SPAWN_FILE_AND_ARGV_ZERO,
		    become_server, &text, -1, -1, -1, &socket, &target, socket >= 0, &server->pid,
		    NULL, NULL, &server->output, &why))
		return failure(error, ENOENT, "the server %s can't be started: %s", words[0],
			       why->message);
	fcntl(server->output, F_SETFL, O_NONBLOCK);
	fcntl(server->output, F_SETFD, FD_CLOEXEC);
	server->unread = g_string_new(NULL);
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
static void
pass_line(const char *line, server_process_listener listener, void *data)
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
	listener(levels[i].level, line + strlen(levels[i].prefix), data);
}

static void
pass_lines(struct server_process *server, bool all, server_process_listener listener, void *data)
{
	char *end;

	while ((end = strchr(server->unread->str, '\n')) ||
	       (server->unread->len > 0 && (all || server->unread->len > LONGEST_LINE))) {
		size_t length = end ? (size_t)(end - server->unread->str) : server->unread->len;
		g_autofree char *line = g_strndup(server->unread->str, length);

		g_string_erase(server->unread, 0, (gssize)(length + (end ? 1 : 0)));
		pass_line(line, listener, data);
	}
}

void
server_process_listen(struct server_process *server, server_process_listener listener, void *data)
{
	char bytes[4096];
	ssize_t n = 0;

	while (server->output >= 0 && (n = read(server->output, bytes, sizeof(bytes))) > 0) {
		g_string_append_len(server->unread, bytes, n);
		pass_lines(server, false, listener, data);
	}
	if (server->output >= 0 && n == 0) {
		pass_lines(server, true, listener, data);
		close(server->output);
		server->output = -1;
	}
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
	if (server->output >= 0)
		close(server->output);
	if (server->unread)
		g_string_free(server->unread, true);
	server_process_init(server);
}

/* ---- connections to one that takes a listening socket */

static bool
connect_all(int *ours, const struct sockaddr_un *address, unsigned int count)
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
	       listen(*listener, (int)count) == 0 && connect_all(ours, &address, count);
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
