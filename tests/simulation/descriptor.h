/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open file descriptions, the numbers that a process has for them, and the calls that any kind
 * understands. A kind (a file, a socket, an event) embeds a description as its first member.
 */
#ifndef TESTS_SIMULATION_DESCRIPTOR_H
#define TESTS_SIMULATION_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct description;
struct process;

struct description_kind {
	const char *name;
	/* The bits of poll() that are there. */
	short (*events)(struct description *description);
	/* Without waiting: -EAGAIN. NULL: impossible. */
	ssize_t (*read)(struct description *description, void *bytes, size_t size);
	ssize_t (*write)(struct description *description, const void *bytes, size_t size);
	/* How many bytes can be read (FIONREAD). NULL: impossible. */
	long (*unread)(struct description *description);
	void (*free)(struct description *description);
};

struct description {
	const struct description_kind *kind;
	unsigned int users; /* numbers, and what the kernel has in flight */
	int flags;          /* of open() */
};

/* Gives it the lowest free number of the running process. Returns the number, or -EMFILE and frees
 * it. */
int
descriptor_open(struct description *description);

/* One more number, not below `least`. */
int
descriptor_add(struct description *description, int least);

/* Returns NULL if there is no such descriptor of the running process, or it is of another kind
 * than that; kind NULL: any. */
struct description *
descriptor_find(int fd, const struct description_kind *kind);

/* One user less, which was no number but something of the kernel's. */
void
descriptor_put(struct description *description);

int
descriptor_close(struct process *process, int fd);

/* Raises an event as another process would: for the signals of the server. */
void
signals_raise(struct process *process, int signal);

/* What the kernel does for a thread at the end of a call; NULL: nothing. */
extern void (*descriptor_after_call)(void);

#endif
