/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: where it is in the file system, and the thread that serves its clients.
 */
#include "control/control_socket.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "control/control_client.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Further ones wait in the backlog until somebody leaves or runs out of time. */
#define CLIENTS_MAX 8
/* Pause before something is tried again that failed for want of descriptors or memory. */
#define PAUSE_MS 100

enum poll_slot {
	POLL_STOP,
	POLL_LISTEN,
	POLL_CLIENT
};

struct control_socket {
	char *path; /* absolute: the server may change its directory */
	dev_t dev;  /* the socket file that we made, to remove no other one */
	ino_t ino;  /* 0: none made */
	int listen_fd;
	int stop_fd; /* eventfd; readable when the thread shall end */
	control_handler handler;
	void *data;
	bool started;
	pthread_t thread;
	/* What follows belongs to the thread. */
	bool accept_paused;
	struct control_client clients[CLIENTS_MAX];
};

/* Makes the sentence about a socket that can't be.  Returns -error, or -ENOMEM. */
static int __attribute__((format(printf, 4, 5)))
refuse(char **sentence, int error, const char *path, const char *format, ...)
{
	char *CLEANUP_FREE reason = NULL;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&reason, format, arguments);
	va_end(arguments);
	if (length < 0) {
		reason = NULL;
		return -ENOMEM;
	}
	if (asprintf(sentence, "control socket %s: %s", path, reason) < 0) {
		*sentence = NULL;
		return -ENOMEM;
	}
	return -error;
}

static int
address_init(struct sockaddr_un *address, const char *path, char **error)
{
	size_t length = strlen(path), most = sizeof(address->sun_path) - 1;

	if (length == 0)
		return refuse(error, EINVAL, "\"\"", "the path is empty");
	if (length > most)
		return refuse(error, ENAMETOOLONG, path,
			      "the path has %zu bytes, but the path of a socket can have only %zu",
			      length, most);
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path, path, length + 1);
	return 0;
}

static int
address_bind(int fd, const struct sockaddr_un *address)
{
	return bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
}

/* Returns 0 when somebody listens there, or -errno. */
static int
address_connect(const struct sockaddr_un *address)
{
	/* Non-blocking: a server whose backlog is full gives EAGAIN. */
	int CLEANUP_CLOSE fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	return connect(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
}

/* Removes the socket file of a server that is gone; refuses to touch anything else. */
static int
stale_remove(const struct sockaddr_un *address, char **error)
{
	const char *path = address->sun_path;
	struct stat before, after;
	int result;

	if (lstat(path, &before))
		return errno == ENOENT ? 0 : refuse(error, errno, path, "%s", strerror(errno));
	if (!S_ISSOCK(before.st_mode))
		return refuse(error, EEXIST, path,
			      "the file exists and is not a socket; choose another path");
	result = address_connect(address);
	if (result == 0 || result == -EAGAIN)
		return refuse(error, EADDRINUSE, path,
			      "another server listens there; choose another path");
	if (result != -ECONNREFUSED)
		return refuse(error, EADDRINUSE, path,
			      "the socket exists and may be in use (%s); choose another path",
			      strerror(-result));
	/* Another server may have done the same meanwhile: don't take its socket away. */
	if (lstat(path, &after) || after.st_dev != before.st_dev || after.st_ino != before.st_ino)
		return refuse(error, EADDRINUSE, path,
			      "another server has just made it; choose another path");
	if (unlink(path))
		return refuse(error, errno, path, "cannot replace an old socket: %s",
			      strerror(errno));
	return 0;
}

/* Binds and listens.  Nobody else can connect at any time between. */
static int
socket_listen(struct control_socket *control, const struct sockaddr_un *address, char **error)
{
	const char *path = address->sun_path;
	struct stat made;
	int result;

	/* Linux gives the file the mode of the unbound socket, less the umask. */
	if (fchmod(control->listen_fd, S_IRUSR | S_IWUSR))
		return refuse(error, errno, path, "%s", strerror(errno));
	result = address_bind(control->listen_fd, address);
	if (result == -EADDRINUSE) {
		result = stale_remove(address, error);
		if (result)
			return result;
		result = address_bind(control->listen_fd, address);
	}
	if (result)
		return refuse(error, -result, path, "cannot be made: %s", strerror(-result));

	if (lstat(path, &made))
		return refuse(error, errno, path, "%s", strerror(errno));
	control->dev = made.st_dev;
	control->ino = made.st_ino;
	/* Until listen(), connections are refused: time to mend an odd umask or kernel. */
	if ((made.st_mode & ALLPERMS) != (S_IRUSR | S_IWUSR) && chmod(path, S_IRUSR | S_IWUSR))
		return refuse(error, errno, path, "cannot make it private: %s", strerror(errno));
	if (listen(control->listen_fd, SOMAXCONN))
		return refuse(error, errno, path, "cannot listen: %s", strerror(errno));
	return 0;
}

static char *
path_absolute(const char *path)
{
	char *CLEANUP_FREE directory = NULL;
	char *absolute;

	if (path[0] == '/')
		return strdup(path);
	directory = getcwd(NULL, 0);
	if (!directory || asprintf(&absolute, "%s/%s", directory, path) < 0)
		return NULL;
	return absolute;
}

int
control_socket_new(const char *path, control_handler handler, void *data,
		   struct control_socket **made, char **error)
{
	struct sockaddr_un address;
	struct control_socket *control;
	int result = address_init(&address, path, error);

	if (result)
		return result;
	control = calloc(1, sizeof(*control));
	if (!control)
		return -ENOMEM;
	control->handler = handler;
	control->data = data;
	for (int i = 0; i < CLIENTS_MAX; i++)
		control_client_init(&control->clients[i]);
	control->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (control->stop_fd >= 0 && control->listen_fd >= 0)
		control->path = path_absolute(path);
	if (control->path)
		result = socket_listen(control, &address, error);
	else
		result = refuse(error, errno, path, "%s", strerror(errno));
	if (result) {
		control_socket_free(control);
		return result;
	}
	*made = control;
	return 0;
}

/* The next event's timeout: the time of the client that has least of it left, -1 for no limit. */
static int
clients_patience(const struct control_socket *control)
{
	int least = control->accept_paused ? PAUSE_MS : -1;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct control_client *client = &control->clients[i];

		if (client->fd >= 0) {
			int left = control_client_patience(client);

			if (least < 0 || left < least)
				least = left;
		}
	}
	return least;
}

static struct control_client *
clients_free_slot(struct control_socket *control)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (control->clients[i].fd < 0)
			return &control->clients[i];
	return NULL;
}

static void
clients_serve(struct control_socket *control, const struct pollfd *polled)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct control_client *client = &control->clients[i];
		int result = 0;

		if (client->fd < 0)
			continue;
		if (polled[i].revents)
			result = control_client_serve(client, control->handler, control->data);
		/* After serving it: what came in while another request was carried out is in
		 * time; single bytes that trickle in are not. */
		if (result || control_client_patience(client) == 0)
			control_client_close(client);
	}
}

static void
client_accept(struct control_socket *control)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	struct control_client *slot = clients_free_slot(control);
	int fd;

	assert(slot); /* or the listening socket wasn't polled */
	fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		control_client_open(slot, fd);
	} else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		/* No descriptors or no memory: poll() would return at once, again and again. */
		control->accept_paused = true;
		if (log_limit_pass(&limit, NULL))
			log_error("control socket %s: cannot accept a connection: %s",
				  control->path, strerror(errno));
	}
}

static void *
control_run(void *data)
{
	struct control_socket *control = data;
	struct pollfd polled[POLL_CLIENT + CLIENTS_MAX];

	for (;;) {
		bool may_accept = !control->accept_paused && clients_free_slot(control);

		polled[POLL_STOP] = (struct pollfd){ .fd = control->stop_fd, .events = POLLIN };
		polled[POLL_LISTEN] = (struct pollfd){
			.fd = may_accept ? control->listen_fd : -1,
			.events = POLLIN,
		};
		for (int i = 0; i < CLIENTS_MAX; i++) {
			const struct control_client *client = &control->clients[i];

			polled[POLL_CLIENT + i] = (struct pollfd){
				.fd = client->fd,
				.events = control_client_events(client),
			};
		}

		if (poll(polled, POLL_CLIENT + CLIENTS_MAX, clients_patience(control)) < 0) {
			/* For want of kernel memory, which passes. */
			usleep(PAUSE_MS * 1000);
			continue;
		}
		if (polled[POLL_STOP].revents)
			return NULL;
		control->accept_paused = false;
		clients_serve(control, polled + POLL_CLIENT);
		if (polled[POLL_LISTEN].revents)
			client_accept(control);
	}
}

int
control_socket_start(struct control_socket *control)
{
	sigset_t all, before;
	int result;

	/* Signals are for the program's own threads; the new thread inherits the mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = -pthread_create(&control->thread, NULL, control_run, control);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!result) {
		control->started = true;
		pthread_setname_np(control->thread, "control");
	}
	return result;
}

/* While the listening socket is open, its inode's number can't belong to another file. */
static void
socket_remove(const struct control_socket *control)
{
	struct stat now;

	if (control->ino && !lstat(control->path, &now) && now.st_dev == control->dev &&
	    now.st_ino == control->ino)
		unlink(control->path);
}

void
control_socket_free(struct control_socket *control)
{
	if (!control)
		return;
	if (control->started) {
		eventfd_write(control->stop_fd, 1);
		pthread_join(control->thread, NULL);
	}
	socket_remove(control);
	for (int i = 0; i < CLIENTS_MAX; i++)
		control_client_close(&control->clients[i]);
	if (control->listen_fd >= 0)
		close(control->listen_fd);
	if (control->stop_fd >= 0)
		close(control->stop_fd);
	free(control->path);
	free(control);
}
