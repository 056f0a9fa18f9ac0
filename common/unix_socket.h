/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listening unix stream socket in the file system. It never replaces a file that another program
 * uses, and is removed at the end.
 */
#ifndef COMMON_UNIX_SOCKET_H
#define COMMON_UNIX_SOCKET_H

#include <sys/types.h>

struct unix_socket {
	int fd;     /* non-blocking; -1: none */
	char *path; /* absolute, because the program may change its directory */
	dev_t dev;  /* of the socket file that we made, so that we remove no other one */
	ino_t ino;  /* 0: we made none */
};

/*
 * Binds and listens. Replaces a socket file on which no server listens, and touches nothing else at
 * `path`. The file has the mode `mode` from the start (0: the umask decides). Messages call it
 * `what`, such as "control socket". Returns 0, or -errno with *error, a sentence (the caller frees
 * it); then there is nothing to close.
 */
int
unix_socket_listen(struct unix_socket *socket, const char *path, mode_t mode, const char *what,
		   char **error);

/* Removes the socket's file unless another file has replaced it. The socket stays open. */
void
unix_socket_remove(struct unix_socket *socket);

/* The same, and closes the socket. */
void
unix_socket_close(struct unix_socket *socket);

#endif
