/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server tells the program that started it (notify-fd): one line of JSON for each event.
 * A guard acts upon these lines, so they have a format, unlike the log.
 * nbdloopd-control(7), EVENTS, explains each of them.
 *
 * No event is left out: if a line can't be written at once, the descriptor is closed, and the
 * reader sees the end of the file. A reader that gets no more lines knows nothing of what follows.
 */
#ifndef COMMON_EVENT_H
#define COMMON_EVENT_H

#include <stddef.h>

enum event_kind {
	EVENT_READY,         /* clients can connect: .addresses */
	EVENT_LOCK_TAKEN,    /* of .subject, as .client */
	EVENT_LOCK_RELEASED, /* of .subject: others may have it from now on */
	EVENT_FENCED,        /* others may write to .subject: nothing succeeds any more; .text */
	EVENT_REFUSED,       /* .subject can't be served: .error, .text */
	EVENT_ENDING,
	EVENT_KINDS,
};

/* By enum event_kind. */
extern const char *const event_names[EVENT_KINDS];

struct event {
	enum event_kind kind;
	const char *subject;          /* the image, as the server was told; or NULL */
	const char *client;           /* of Ceph, as ceph-fence takes it; NULL: not known */
	const char *text;             /* a sentence, or NULL */
	int error;                    /* an errno value; 0: none */
	const char *const *addresses; /* where the server listens; NULL follows the last one */
};

/* Writes events to that pipe or socket from now on. Returns 0, or -errno with *error a sentence
 * (the caller frees it). */
int
event_open(unsigned int fd, char **error);

/* Writes the event, if anybody reads them. Any thread may call it, and it never waits. */
void
event_raise(const struct event *event);

void
event_close(void);

/* Returns the line of an event, of *size bytes, which the caller frees; NULL: no memory. */
char *
event_line(const struct event *event, size_t *size);

#endif
