/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listening unix stream socket in the file system: made without taking anybody else's away, and
 * removed at the end.  Not what is said on it.
 */
#ifndef COMMON_UNIX_SOCKET_H
#define COMMON_UNIX_SOCKET_H

#include <sys/types.h>

struct unix_socket {
	int fd;     /* non-blocking; -1: none */
	char *path; /* absolute: the program may change its directory */
	dev_t dev;  /* the socket file that we made, to remove no other one */
	ino_t ino;  /* 0: none made */
};

/*
 * Binds and listens.  A socket file that nobody listens on is replaced; anything else at `path` is
 * left alone.  `mode`: of the file, from the first moment on; 0: what the umask leaves.  `what`:
 * "control socket", for messages.  Returns 0 or -errno with *error a sentence (caller frees); then
 * there is nothing to close.
 */
int
unix_socket_listen(struct unix_socket *socket, const char *path, mode_t mode, const char *what,
		   char **error);

/* Removes the file if it is still ours, and closes. */
void
unix_socket_close(struct unix_socket *socket);

#endif
