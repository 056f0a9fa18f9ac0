/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/unix_socket.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* The socket that the caller wants. */
struct wish {
	struct sockaddr_un address;
	mode_t mode;
	const char *what;
};

static int
wish_init(struct wish *wish, const char *path, mode_t mode, const char *what, char **error)
{
	size_t length = strlen(path), most = sizeof(wish->address.sun_path) - 1;

	if (length == 0)
		return error_set(error, -EINVAL, "%s \"\": the path is empty", what);
	if (length > most)
		return error_set(
			error, -ENAMETOOLONG,
			"%s %s: the path has %zu bytes, but the path of a socket can have only %zu",
			what, path, length, most);
	*wish = (struct wish){.address.sun_family = AF_UNIX, .mode = mode, .what = what};
	memcpy(wish->address.sun_path, path, length + 1);
	return 0;
}

/* The kernel gives the file all permissions that the umask does not take away. The umask is the
 * process's: a file that another thread makes meanwhile gets this mode at most, but never none at
 * all, with which nobody could open it again. */
static int
wish_bind(int fd, const struct wish *wish)
{
	mode_t before = wish->mode ? umask(ACCESSPERMS & ~wish->mode) : 0;
	int r = bind(fd, (const struct sockaddr *)&wish->address, sizeof(wish->address)) ? -errno
											 : 0;

	if (wish->mode)
		umask(before);
	return r;
}

/* Returns 0 if a server listens there, or -errno. */
static int
wish_connect(const struct wish *wish)
{
	/* Non-blocking, so connect() fails with EAGAIN if the server's backlog is full. */
	int CLEANUP_CLOSE fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	return connect(fd, (const struct sockaddr *)&wish->address, sizeof(wish->address)) ? -errno
											   : 0;
}

/* Removes the socket file of a server that has ended. Anything else is an error. */
static int
stale_remove(const struct wish *wish, char **error)
{
	const char *path = wish->address.sun_path, *what = wish->what;
	struct stat before, after;
	int r;

	if (lstat(path, &before))
		return errno == ENOENT
			       ? 0
			       : error_set(error, -errno, "%s %s: %s", what, path, strerror(errno));
	if (!S_ISSOCK(before.st_mode))
		return error_set(error, -EEXIST,
				 "%s %s: the file exists and is not a socket; choose another path",
				 what, path);
	r = wish_connect(wish);
	if (r == 0 || r == -EAGAIN)
		return error_set(error, -EADDRINUSE,
				 "%s %s: another server listens there; choose another path", what,
				 path);
	if (r != -ECONNREFUSED)
		return error_set(
			error, -EADDRINUSE,
			"%s %s: the socket exists and may be in use (%s); choose another path",
			what, path, strerror(-r));
	/* Another server may have replaced the file meanwhile; its socket must stay. */
	if (lstat(path, &after) || after.st_dev != before.st_dev || after.st_ino != before.st_ino)
		return error_set(error, -EADDRINUSE,
				 "%s %s: another server has just made it; choose another path",
				 what, path);
	if (unlink(path))
		return error_set(error, -errno, "%s %s: cannot replace an old socket: %s", what,
				 path, strerror(errno));
	return 0;
}

/* Binds and listens. At no time can a user connect whom the mode excludes. */
static int
listen_at(struct unix_socket *made, const struct wish *wish, char **error)
{
	const char *path = wish->address.sun_path, *what = wish->what;
	struct stat file;
	int r = wish_bind(made->fd, wish);

	if (r == -EADDRINUSE) {
		r = stale_remove(wish, error);
		if (r < 0)
			return r;
		r = wish_bind(made->fd, wish);
	}
	if (r < 0)
		return error_set(error, r, "%s %s: cannot be made: %s", what, path, strerror(-r));

	if (lstat(path, &file))
		return error_set(error, -errno, "%s %s: %s", what, path, strerror(errno));
	made->dev = file.st_dev;
	made->ino = file.st_ino;
	/* Until listen(), the kernel refuses connections, so there is time to correct the mode. */
	if (wish->mode && (file.st_mode & ALLPERMS) != wish->mode && chmod(path, wish->mode))
		return error_set(error, -errno, "%s %s: cannot make it private: %s", what, path,
				 strerror(errno));
	if (listen(made->fd, SOMAXCONN))
		return error_set(error, -errno, "%s %s: cannot listen: %s", what, path,
				 strerror(errno));
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
unix_socket_listen(struct unix_socket *made, const char *path, mode_t mode, const char *what,
		   char **error)
{
	struct wish wish;
	int r;

	*made = (struct unix_socket){.fd = -1};
	r = wish_init(&wish, path, mode, what, error);
	if (r < 0)
		return r;
	made->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (made->fd >= 0)
		made->path = path_absolute(path);
	if (made->path)
		r = listen_at(made, &wish, error);
	else
		r = error_set(error, -errno, "%s %s: %s", what, path, strerror(errno));
	if (r < 0)
		unix_socket_close(made);
	return r;
}

void
unix_socket_remove(struct unix_socket *made)
{
	struct stat now;

	/* While the listening socket is open, no other file can have its inode number. */
	if (made->ino && !lstat(made->path, &now) && now.st_dev == made->dev &&
	    now.st_ino == made->ino && unlink(made->path) < 0 && errno != ENOENT)
		log_warning("%s: cannot be removed: %s", made->path, strerror(errno));
	made->ino = 0;
}

void
unix_socket_close(struct unix_socket *made)
{
	unix_socket_remove(made);
	if (made->fd >= 0)
		close(made->fd);
	free(made->path);
	*made = (struct unix_socket){.fd = -1};
}
