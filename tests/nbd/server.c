/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/server.h"

#include "common/cleanup.h"
#include "tests/nbd/ceph_image.h"
#include "tests/nbd/facts.h"
#include "tests/nbd/scratch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS   (SERVER_PARAMETERS + 24)
#define TICK_MS     5
#define PATIENCE_MS 60000 /* seconds that a start or an end may take on a busy machine */

/* Under valgrind, everything is slower. */
static unsigned int
patience_ms(void)
{
	const char *factor = getenv("NBDLOOP_TIME_FACTOR");

	return PATIENCE_MS * (factor && atoi(factor) > 0 ? (unsigned int)atoi(factor) : 1);
}

static void
tick(void)
{
	nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
}

/* Makes a new name for a server's file; a test may start several servers. */
static char *
server_path(unsigned int number, const char *suffix)
{
	char name[64];

	snprintf(name, sizeof(name), "server%u.%s", number, suffix);
	return strdup(scratch_path(name));
}

struct command {
	char *words[ARGUMENTS]; /* NULL-terminated */
	unsigned int count;
};

static void
command_fini(struct command *command)
{
	for (unsigned int i = 0; i < command->count; i++)
		free(command->words[i]);
}

static void
command_add(struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
command_add(struct command *command, const char *format, ...)
{
	va_list arguments;

	ck_assert_uint_lt(command->count, ARGUMENTS - 1);
	va_start(arguments, format);
	ck_assert_int_ge(vasprintf(&command->words[command->count++], format, arguments), 0);
	va_end(arguments);
}

/* The paths of a server under test. */
struct places {
	const char *socket_path;
	const char *pid_path;
	const char *psk_path; /* or NULL */
};

static const char *
direct_io_choice(const struct target *target, const struct server_config *config)
{
	if (config->direct_io_auto)
		return "auto";
	return target->direct_io ? "on" : "off";
}

/* Settings that both servers know by the same names; nbdloopd's are options ("--"). */
static void
command_add_image(struct command *command, const char *dashes, const struct target *target,
		  const struct server_config *config)
{
	if (!target->ceph)
		command_add(command, "%sengine=%s", dashes, target->engine);
	command_add(command, "%sdirect-io=%s", dashes, direct_io_choice(target, config));
	if (target->poll)
		command_add(command, "%spoll=on", dashes);
	/* An image in memory, one of those that may do without direct I/O, is refused. */
	if (target->drop && !config->direct_io_auto)
		command_add(command, "%spage-cache=drop", dashes);
	for (unsigned int i = 0; i < SERVER_PARAMETERS && config->parameters[i]; i++)
		command_add(command, "%s%s", dashes, config->parameters[i]);
}

static const char *
image_of(const struct target *target, const struct server_config *config)
{
	return target->ceph ? ceph_image_import(config->file) : config->file;
}

static void
command_build_nbdkit(struct command *command, const struct target *target,
		     const struct server_config *config, const struct places *places)
{
	command_add(command, "%s", facts_nbdkit());
	command_add(command, "--foreground");
	command_add(command, "--unix=%s", places->socket_path);
	command_add(command, "--pidfile=%s", places->pid_path);
	if (config->threads)
		command_add(command, "--threads=%u", config->threads);
	if (config->read_only)
		command_add(command, "--readonly");
	command_add(command, "%s", facts_plugin());
	if (config->dir)
		command_add(command, "dir=%s", config->dir);
	else
		command_add(command, "file=%s", image_of(target, config));
	if (config->contexts)
		command_add(command, "contexts=%u", config->contexts);
	command_add_image(command, "", target, config);
}

static void
command_build_nbdloopd(struct command *command, const struct target *target,
		       const struct server_config *config, const struct places *places)
{
	command_add(command, "nbdloopd");
	command_add(command, "--unix=%s", places->socket_path);
	command_add(command, "--pid-file=%s", places->pid_path);
	if (places->psk_path)
		command_add(command, "--tls-psk=%s", places->psk_path);
	if (config->read_only)
		command_add(command, "--read-only");
	/* Each of nbdkit's threads has a buffer. */
	if (config->contexts)
		command_add(command, "--threads=%u", config->contexts);
	command_add_image(command, "--", target, config);
	for (unsigned int i = 0; config->dir && config->names[i]; i++)
		command_add(command, "--export=%s=%s/%s", config->names[i], config->dir,
			    config->names[i]);
	if (config->file)
		command_add(command, "%s", image_of(target, config));
}

static void
command_build(struct command *command, const struct target *target,
	      const struct server_config *config, const struct places *places)
{
	switch (target->server) {
	case TARGET_PLUGIN: command_build_nbdkit(command, target, config, places); break;
	case TARGET_NBDLOOPD: command_build_nbdloopd(command, target, config, places); break;
	}
}

/* Writes a file with a key. */
static void
write_key(const char *path)
{
	FILE *file = fopen(path, "we");

	ck_assert_ptr_nonnull(file);
	ck_assert_int_gt(fprintf(file, "%s:000102030405060708090a0b0c0d0e0f\n", SERVER_USER), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void
server_exec(const struct command *command, const char *log_path, pid_t parent)
{
	int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
	int null = open("/dev/null", O_RDWR);

	if (log < 0 || null < 0)
		_exit(126);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	/* A test that fails or runs out of time takes its server with it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	execvp(command->words[0], command->words);
	fprintf(stderr, "%s: %s\n", command->words[0], strerror(errno));
	_exit(127);
}

static char *
log_read(const struct server *server)
{
	char *text = NULL;
	size_t capacity = 0;
	FILE *log = fopen(server->log_path, "re");

	if (!log || getdelim(&text, &capacity, '\0', log) < 0) {
		free(text);
		text = strdup("");
	}
	if (log)
		fclose(log);
	return text;
}

static bool
has_content(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && status.st_size > 0;
}

static void
server_await(const struct server *server, const char *pid_path)
{
	for (unsigned int waited = 0; !has_content(pid_path); waited += TICK_MS) {
		int status;

		if (waitpid(server->pid, &status, WNOHANG) == server->pid)
			ck_abort_msg("the server did not start (status 0x%x): %s",
				     (unsigned int)status, log_read(server));
		if (waited > patience_ms())
			ck_abort_msg("the server does not listen: %s", log_read(server));
		tick();
	}
}

struct server *
server_start(const struct target *target, const struct server_config *config)
{
	static unsigned int number;
	struct server *server = calloc(1, sizeof(*server));
	char *CLEANUP_FREE pid_path = server_path(number, "pid");
	struct command command = {0};
	pid_t self = getpid();

	ck_assert_ptr_nonnull(server);
	server->socket_path = server_path(number, "socket");
	server->log_path = server_path(number, "log");
	if (target->tls) {
		server->psk_path = server_path(number, "psk");
		write_key(server->psk_path);
	}
	number++;
	ck_assert_msg(strlen(server->socket_path) < sizeof(((struct sockaddr_un *)0)->sun_path),
		      "%s: too long for a socket; choose a shorter TMPDIR", server->socket_path);
	command_build(&command, target, config,
		      &(struct places){server->socket_path, pid_path, server->psk_path});
	server->pid = fork();
	ck_assert_int_ge(server->pid, 0);
	if (server->pid == 0)
		server_exec(&command, server->log_path, self);
	command_fini(&command);
	server_await(server, pid_path);
	return server;
}

void
server_stop(struct server *server)
{
	int status = 0;
	unsigned int waited = 0;

	kill(server->pid, SIGTERM);
	while (waitpid(server->pid, &status, WNOHANG) == 0) {
		if (waited > patience_ms()) {
			kill(server->pid, SIGKILL);
			waitpid(server->pid, &status, 0);
			ck_abort_msg("the server does not end: %s", log_read(server));
		}
		tick();
		waited += TICK_MS;
	}
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "the server ended with status 0x%x: %s", (unsigned int)status,
		      log_read(server));
	free(server->socket_path);
	free(server->psk_path);
	free(server->log_path);
	free(server);
}

bool
server_log_has(const struct server *server, const char *first, const char *second)
{
	char *CLEANUP_FREE text = log_read(server);
	char *rest = text;
	char *line;

	while ((line = strsep(&rest, "\n"))) {
		const char *at = strstr(line, first);

		if (at && (!second || strstr(at + strlen(first), second)))
			return true;
	}
	return false;
}

void
server_expect_log_at(const char *file, int line, const struct server *server, const char *first,
		     const char *second)
{
	/* The reply may reach the client before the line reaches the log. */
	for (unsigned int waited = 0; waited < patience_ms() / 10; waited += TICK_MS) {
		if (server_log_has(server, first, second))
			return;
		tick();
	}
	ck_abort_msg("%s:%d: no \"%s\"...\"%s\" in the server's log: %s", file, line, first,
		     second ? second : "", log_read(server));
}
