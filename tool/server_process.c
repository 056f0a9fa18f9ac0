/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server_process.h"

#include "tool/failure.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	FIRST_SOCKET = 3, /* descriptor, in the server */
	LONGEST_LINE = 8192,
	STEP_MS = 10,
};

void
server_process_init(struct server_process *server)
{
	*server = (struct server_process){.output = -1};
}

char *
server_process_program(void)
{
	char *path = g_find_program_in_path("nbdloopd");

	return path ? path : g_strdup(SBINDIR "/nbdloopd");
}

/* Between fork() and exec(): only what is allowed there. */
static void
become_server(void *data)
{
	sigset_t none;

	(void)data;
	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static char **
make_words(const GPtrArray *arguments, unsigned int count)
{
	GStrvBuilder *words = g_strv_builder_new();
	char **all;

	g_strv_builder_add(words, g_ptr_array_index(arguments, 0));
	/* argv[0], with the mark that tool/guard.c explains. */
	g_strv_builder_add(words, "@nbdloopd");
	for (unsigned int i = 0; i < count; i++) {
		g_autofree char *word = g_strdup_printf("--fd=%u", FIRST_SOCKET + i);

		g_strv_builder_add(words, word);
	}
	for (unsigned int i = 1; i < arguments->len; i++)
		g_strv_builder_add(words, g_ptr_array_index(arguments, i));
	all = g_strv_builder_end(words);
	g_strv_builder_unref(words);
	return all;
}

bool
server_process_start(struct server_process *server, const GPtrArray *arguments, const int *sockets, unsigned int count,
		     GError **error)
{
	g_auto(GStrv) words = make_words(arguments, count);
	g_autofree int *targets = g_new(int, count);
	g_autoptr(GError) why = NULL;

	for (unsigned int i = 0; i < count; i++)
		targets[i] = (int)(FIRST_SOCKET + i);
	if (!g_spawn_async_with_pipes_and_fds("/", (const char *const *)words, NULL,
					      G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL |
						      G_SPAWN_FILE_AND_ARGV_ZERO,
					      become_server, NULL, -1, -1, -1, sockets, targets, count, &server->pid, NULL, NULL,
					      &server->output, &why))
		return failure(error, ENOENT, "the server %s can't be started: %s", words[0], why->message);
	fcntl(server->output, F_SETFL, O_NONBLOCK);
	fcntl(server->output, F_SETFD, FD_CLOEXEC);
	server->unread = g_string_new(NULL);
	return true;
}

/* A line as nbdloopd words it: "nbdloopd: warning: TEXT". */
static void
pass_line(const char *line, server_process_listener listener, void *data)
{
	static const struct {
		const char *prefix;
		int level;
	} levels[] = {{"error: ", LOG_LEVEL_ERROR}, {"warning: ", LOG_LEVEL_WARNING}, {"", LOG_LEVEL_INFO}};
	size_t i = 0;

	if (g_str_has_prefix(line, "nbdloopd: "))
		line += strlen("nbdloopd: ");
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
	int status;

	while (server->pid != 0 && !server_process_ended(server, &status)) {
		if (patience == 0) {
			kill(server->pid, SIGKILL);
			waitpid(server->pid, &status, 0);
			server->pid = 0;
			break;
		}
		g_usleep(STEP_MS * 1000);
		patience -= MIN(patience, STEP_MS);
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
