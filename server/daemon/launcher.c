/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/launcher.h"

#include "server/config/command_line.h"
#include "server/config/server_uri.h"
#include "server/daemon/activation.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL "/bin/sh"

/* What a shell returns for a command that a signal has ended, and for one that it can't run. */
enum {
	EXIT_SIGNAL = 128,
	EXIT_NO_COMMAND = 127,
};

/* ---- the server's side */

static struct {
	int ready_fd; /* a byte is written to it when clients can connect; -1: no launcher waits */
	int null_fd;  /* replaces standard error then; -1: it stays */
	bool runs;    /* a command */
} told = {.ready_fd = -1, .null_fd = -1};

void
launcher_follow(void)
{
	/* A launcher that is dead already reads nothing: launcher_tell_ready() fails. */
	if (told.runs)
		prctl(PR_SET_PDEATHSIG, SIGTERM);
}

int
launcher_tell_ready(char **error)
{
	int CLEANUP_CLOSE ready_fd = steal_fd(&told.ready_fd);
	int CLEANUP_CLOSE null_fd = steal_fd(&told.null_fd);

	if (ready_fd < 0)
		return 0;
	if (write(ready_fd, "", 1) < 0)
		return error_set(error, -errno,
				 "the process that started the server was killed before the server "
				 "was ready");
	if (null_fd >= 0)
		dup2(null_fd, STDERR_FILENO);
	return 0;
}

/* ---- the launcher */

struct launcher {
	const struct command_line *line;
	const struct server_config *config;
	char *directory; /* with the private socket; NULL: there is none */
	int null_fd;     /* /dev/null */
	int ready_fd;  /* the other end of the server's; -1: it was read, or the server has ended */
	bool ready;    /* the server was */
	int signals;   /* signalfd */
	sigset_t mask; /* as it was inherited */
	pid_t server;  /* 0: it has ended */
	pid_t command; /* 0: it does not run */
	int status;    /* of the process */
	bool failed;   /* the server has, after it was ready */
	int signal;    /* that came before the server was left, or had a command; 0: none */
};

/* Clients of no other user get into the directory. */
static int
launcher_make_socket(struct launcher *launcher, struct command_line *line,
		     struct server_config *config, char **error)
{
	const char *where = getenv("TMPDIR");
	char *CLEANUP_FREE directory = NULL;

	if (asprintf(&directory, "%s/nbdloopd.XXXXXX", where && *where ? where : "/tmp") < 0) {
		directory = NULL;
		return -ENOMEM;
	}
	if (!mkdtemp(directory))
		return error_set(error, -errno, "--run: the directory %s cannot be made: %s",
				 directory, strerror(errno));
	launcher->directory = steal_pointer(&directory);
	if (asprintf(&line->private_socket, "%s/socket", launcher->directory) < 0) {
		line->private_socket = NULL;
		return -ENOMEM;
	}
	return config_set(config, "unix", line->private_socket, error);
}

static void
launcher_fini(struct launcher *launcher)
{
	const int fds[] = {launcher->null_fd, launcher->ready_fd, launcher->signals};

	if (launcher->directory) {
		/* A server that was killed leaves its socket. */
		unlink(launcher->line->private_socket);
		if (rmdir(launcher->directory) < 0)
			log_warning("the directory %s cannot be removed: %s", launcher->directory,
				    strerror(errno));
	}
	free(launcher->directory);
	for (unsigned int i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

/* ---- descriptors that were passed to the server */

/* The command does not get it, and its reader sees when the server ends. */
static void
launcher_close_passed(int fd)
{
	const int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;

	/* The launcher's own descriptors have the flag, and passed ones cannot have it. */
	if (flags >= 0 && !(flags & FD_CLOEXEC))
		close(fd);
}

static void
launcher_close_all_passed(const struct server_config *config)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	const int sockets = pid && count && atol(pid) == (long)getpid() ? atoi(count) : 0;

	for (char **text = config->fd; text && *text; text++)
		launcher_close_passed(atoi(*text));
	launcher_close_passed((int)config->fd_from);
	launcher_close_passed((int)config->notify_fd);
	for (int i = 0; i < sockets && i < INT16_MAX; i++)
		launcher_close_passed(ACTIVATION_FIRST + i);
}

/* ---- two processes */

static int
launcher_open(struct launcher *launcher, int *write_end)
{
	static const int caught[] = {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	int ends[2];
	sigset_t set;

	launcher->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (launcher->null_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	launcher->ready_fd = ends[0];
	*write_end = ends[1];
	/* An ignored one would leave no status. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	for (unsigned int i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, &launcher->mask);
	launcher->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return launcher->signals < 0 ? -errno : 0;
}

/* systemd's variables name the launcher. */
static void
launcher_rename_process(const char *variable)
{
	const char *text = getenv(variable);
	char own[16];

	snprintf(own, sizeof(own), "%d", (int)getpid());
	if (text && atol(text) == (long)getppid())
		setenv(variable, own, 1);
}

/* The server's process from here on. */
static void
launcher_become_server(struct launcher *launcher, int write_end)
{
	const struct command_line *line = launcher->line;
	sigset_t mask = launcher->mask;

	close(steal_fd(&launcher->signals));
	close(steal_fd(&launcher->ready_fd));
	free(steal_pointer(&launcher->directory));
	if (line->run) {
		/* From the terminal, they are meant for the command: the server serves it until it
		 * has ended. */
		sigaddset(&mask, SIGINT);
		sigaddset(&mask, SIGQUIT);
	} else {
		setsid();
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	launcher_rename_process("LISTEN_PID");
	launcher_rename_process("WATCHDOG_PID");
	/* Whoever reads the command's output, or that of --fork, waits for no server. */
	dup2(launcher->null_fd, STDIN_FILENO);
	dup2(launcher->null_fd, STDOUT_FILENO);
	told.ready_fd = write_end;
	told.runs = line->run;
	if (line->detached)
		told.null_fd = steal_fd(&launcher->null_fd);
	launcher_fini(launcher);
}

/* ---- the command */

static void
launcher_set_variable(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* A command may change its directory. The caller frees the path; NULL: out of memory. */
static char *
launcher_absolute_path(const char *path)
{
	char *CLEANUP_FREE directory = *path == '/' ? NULL : getcwd(NULL, 0);
	char *absolute = NULL;

	if (!directory)
		return strdup(path);
	return asprintf(&absolute, "%s/%s", directory, path) < 0 ? NULL : absolute;
}

static void
launcher_set_variables(const struct launcher *launcher)
{
	const struct server_config *config = launcher->config;
	char *CLEANUP_FREE path =
		config->unix_socket ? launcher_absolute_path(config->unix_socket[0]) : NULL;
	char *CLEANUP_FREE uri = server_uri(config, path);
	const unsigned int port = config->port ? config->port : DEFAULT_PORT;
	char pid[16], port_text[16];

	snprintf(pid, sizeof(pid), "%d", (int)launcher->server);
	snprintf(port_text, sizeof(port_text), "%u", port);
	launcher_set_variable("uri", uri);
	launcher_set_variable("unixsocket", path);
	launcher_set_variable("port", config->port || config->address ? port_text : NULL);
	launcher_set_variable("pid", pid);
	launcher_set_variable("exportname", config->exports->name);
}

static _Noreturn void
launcher_become_command(const struct launcher *launcher)
{
	/* A child must not speak in the name of this process to systemd. */
	static const char *const private[] = {"LISTEN_PID",    "LISTEN_FDS",    "LISTEN_FDNAMES",
					      "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"};

	for (unsigned int i = 0; i < sizeof(private) / sizeof(private[0]); i++)
		unsetenv(private[i]);
	launcher_set_variables(launcher);
	sigprocmask(SIG_SETMASK, &launcher->mask, NULL);
	execl(SHELL, "sh", "-c", launcher->line->run, NULL);
	log_error("--run: %s: %s", SHELL, strerror(errno));
	_exit(EXIT_NO_COMMAND);
}

/* Without a command, the server has nothing to do. */
static void
launcher_end_server(struct launcher *launcher)
{
	if (launcher->server)
		kill(launcher->server, SIGTERM);
}

static void
launcher_start_command(struct launcher *launcher)
{
	pid_t child = fork();

	if (child == 0)
		launcher_become_command(launcher);
	if (child > 0) {
		launcher->command = child;
		return;
	}
	log_error("--run: %s", strerror(errno));
	launcher->status = EXIT_FAILURE;
	launcher_end_server(launcher);
}

/* ---- what the launcher waits for */

static int
launcher_status_of(int status)
{
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Before the server was ready, its log says why it has ended, unless a signal did. */
static void
launcher_lose_server(struct launcher *launcher, int status)
{
	launcher->server = 0;
	if (WIFSIGNALED(status))
		log_error("the server was killed by signal %d%s", WTERMSIG(status),
			  launcher->command ? "; its command still runs" : "");
	else if (launcher->command)
		log_warning("the server has ended before its command");
	launcher->failed = status != 0;
	if (!launcher->ready)
		launcher->status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static void
launcher_reap(struct launcher *launcher)
{
	pid_t child;
	int status;

	while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
		if (child == launcher->server) {
			launcher_lose_server(launcher, status);
		} else if (child == launcher->command) {
			launcher->command = 0;
			launcher->status = launcher_status_of(status);
			launcher_end_server(launcher);
		}
	}
}

static void
launcher_take_signals(struct launcher *launcher)
{
	struct signalfd_siginfo info;

	while (read(launcher->signals, &info, sizeof(info)) == sizeof(info)) {
		const int number = (int)info.ssi_signo;

		if (number == SIGCHLD) {
			launcher_reap(launcher);
		} else if (!launcher->command) {
			if (!launcher->ready || launcher->line->fork)
				launcher->signal = number;
			launcher_end_server(launcher);
		} else if (info.ssi_code != SI_KERNEL) {
			/* From the terminal, the command has got it, too. */
			kill(launcher->command, number);
		}
	}
}

/* The server is ready, or has ended, which another signal tells. */
static void
launcher_hear_server(struct launcher *launcher)
{
	char byte;
	const ssize_t n = read(launcher->ready_fd, &byte, 1);

	if (n < 0)
		return;
	close(steal_fd(&launcher->ready_fd));
	launcher->ready = n > 0;
	if (launcher->ready && launcher->line->run && !launcher->signal)
		launcher_start_command(launcher);
}

/* Returns whether there is nothing more to wait for. */
static bool
launcher_is_over(const struct launcher *launcher)
{
	const bool left = launcher->line->fork && launcher->ready && !launcher->signal;

	return !launcher->command && (left || !launcher->server);
}

static void
launcher_wait(struct launcher *launcher)
{
	while (!launcher_is_over(launcher)) {
		struct pollfd polled[] = {
			{.fd = launcher->signals, .events = POLLIN},
			{.fd = launcher->ready_fd, .events = POLLIN},
		};

		if (poll(polled, 2, -1) <= 0)
			continue;
		/* First, since a server that has ended was ready before. */
		if (polled[1].revents)
			launcher_hear_server(launcher);
		if (polled[0].revents)
			launcher_take_signals(launcher);
	}
}

/* The process that waits for this one sees the signal. */
static void
launcher_die(const struct launcher *launcher)
{
	sigset_t set;

	signal(launcher->signal, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, launcher->signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(launcher->signal);
}

/* Returns 0 in the server, 1 in the launcher, or -errno. */
static int
launcher_fork(struct launcher *launcher)
{
	int write_end = -1;
	int r = launcher_open(launcher, &write_end);

	if (r == 0)
		launcher->server = fork();
	if (r == 0 && launcher->server < 0)
		r = -errno;
	if (r == 0 && launcher->server == 0) {
		launcher_become_server(launcher, write_end);
		return 0;
	}
	if (write_end >= 0)
		close(write_end);
	if (r < 0)
		return r;
	launcher_close_all_passed(launcher->config);
	launcher_wait(launcher);
	return 1;
}

int
launcher_start(struct command_line *line, struct server_config *config, int *status, char **error)
{
	struct launcher launcher = {
		.line = line,
		.config = config,
		.null_fd = -1,
		.ready_fd = -1,
		.signals = -1,
	};
	int r = 0;

	if (!line->fork && !line->run)
		return 0;
	if (line->run && !config_names_address(config))
		r = launcher_make_socket(&launcher, line, config, error);
	if (r == 0)
		r = launcher_fork(&launcher);
	if (r == 0)
		return 0;
	launcher_fini(&launcher);
	if (launcher.signal)
		launcher_die(&launcher);
	*status =
		launcher.status == EXIT_SUCCESS && launcher.failed ? EXIT_FAILURE : launcher.status;
	return r;
}
