/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/descriptor.h"

#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/event.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

void (*descriptor_after_call)(void);

/* ---- numbers */

int
descriptor_add(struct description *description, int least)
{
	struct process *process = process_self();

	for (int fd = least; fd < PROCESS_FILES; fd++) {
		if (process->files[fd])
			continue;
		process->files[fd] = description;
		description->users++;
		return fd;
	}
	return -EMFILE;
}

int
descriptor_open(struct description *description)
{
	/* The first three are those that are always open. */
	const int fd = descriptor_add(description, 3);

	if (fd < 0)
		description->kind->free(description);
	return fd;
}

struct description *
descriptor_find(int fd, const struct description_kind *kind)
{
	struct process *process = process_self();
	struct description *found = fd >= 0 && fd < PROCESS_FILES ? process->files[fd] : NULL;

	return found && (!kind || found->kind == kind) ? found : NULL;
}

/* ---- epoll */

struct watch {
	struct description *description;
	int fd;
	uint32_t events;
	epoll_data_t data;
	bool armed;
};

struct epoll {
	struct description description;
	struct watch watches[PROCESS_FILES];
	unsigned int used; /* watches, also those that are free again */
	struct epoll *next;
};

static struct epoll *epolls;

/* epoll forgets a description when nobody uses it any more. */
static void
epoll_forget(const struct description *description)
{
	for (struct epoll *epoll = epolls; epoll; epoll = epoll->next) {
		for (unsigned int i = 0; i < epoll->used; i++) {
			if (epoll->watches[i].description == description)
				epoll->watches[i].description = NULL;
		}
	}
}

static uint32_t
watch_events(const struct watch *watch)
{
	if (!watch->description || !watch->armed)
		return 0;
	return (uint16_t)watch->description->kind->events(watch->description) &
	       (watch->events | EPOLLERR | EPOLLHUP);
}

static short
epoll_events(struct description *description)
{
	const struct epoll *epoll = (struct epoll *)description;

	for (unsigned int i = 0; i < epoll->used; i++) {
		if (watch_events(&epoll->watches[i]))
			return POLLIN;
	}
	return 0;
}

static void
epoll_free(struct description *description)
{
	struct epoll **at = &epolls;

	while (&(*at)->description != description)
		at = &(*at)->next;
	*at = (*at)->next;
	free(description);
}

static const struct description_kind kind_epoll = {
	.name = "epoll",
	.events = epoll_events,
	.free = epoll_free,
};

CALL(int, epoll_create1, int flags)
{
	struct epoll *epoll = calloc(1, sizeof(*epoll));

	epoll->description = (struct description){.kind = &kind_epoll, .flags = flags};
	epoll->next = epolls;
	epolls = epoll;
	CALL_RETURN(descriptor_open(&epoll->description));
}

static long
epoll_change(int number, int what, int fd, const struct epoll_event *event)
{
	struct epoll *epoll = (struct epoll *)descriptor_find(number, &kind_epoll);
	struct description *description = descriptor_find(fd, NULL);
	struct watch *free_one = NULL, *watch = NULL;

	if (!epoll || !description)
		return -EBADF;
	for (unsigned int i = 0; i < epoll->used; i++) {
		struct watch *one = &epoll->watches[i];

		if (one->description == description && one->fd == fd)
			watch = one;
		else if (!one->description && !free_one)
			free_one = one;
	}
	if (!watch && !free_one && epoll->used < PROCESS_FILES)
		free_one = &epoll->watches[epoll->used++];
	if (what != EPOLL_CTL_ADD && !watch)
		return -ENOENT;
	if (what == EPOLL_CTL_ADD && watch)
		return -EEXIST;
	if (what == EPOLL_CTL_ADD && event_strikes(1000, "no room in epoll"))
		return -ENOSPC;
	if (what == EPOLL_CTL_DEL)
		watch->description = NULL;
	else
		*(watch ? watch : free_one) = (struct watch){
			.description = description,
			.fd = fd,
			.events = event->events,
			.data = event->data,
			.armed = true,
		};
	return 0;
}

CALL(int, epoll_ctl, int number, int what, int fd, struct epoll_event *event)
{
	CALL_RETURN(epoll_change(number, what, fd, event));
}

static bool
epoll_is_ready(void *data)
{
	return epoll_events(data) != 0;
}

static int64_t
until_ms(int timeout)
{
	return timeout < 0 ? FOR_EVER : scheduler_now() + timeout * MILLISECOND;
}

CALL(int, epoll_wait, int number, struct epoll_event *events, int most, int timeout)
{
	struct epoll *epoll = (struct epoll *)descriptor_find(number, &kind_epoll);
	unsigned int first;
	int count = 0;

	if (timeout != 0 && event_strikes(500, "EINTR of a wait"))
		CALL_RETURN(-EINTR);
	if (timeout != 0)
		scheduler_wait("events", epoll_is_ready, epoll, until_ms(timeout));
	else if (chance_once_in(4))
		scheduler_yield();
	first = (unsigned int)chance_below(epoll->used);
	for (unsigned int i = 0; i < epoll->used && count < most; i++) {
		struct watch *watch = &epoll->watches[(first + i) % epoll->used];
		const uint32_t there = watch_events(watch);

		if (!there)
			continue;
		events[count++] = (struct epoll_event){.events = there, .data = watch->data};
		if (watch->events & EPOLLONESHOT)
			watch->armed = false;
	}
	return count;
}

/* ---- poll */

struct polled {
	struct pollfd *fds;
	nfds_t count;
};

static int
polled_count(const struct polled *polled)
{
	int count = 0;

	for (nfds_t i = 0; i < polled->count; i++) {
		struct pollfd *one = &polled->fds[i];
		struct description *description = descriptor_find(one->fd, NULL);

		one->revents = 0;
		if (one->fd >= 0 && !description)
			one->revents = POLLNVAL;
		else if (description)
			one->revents = description->kind->events(description) &
				       (one->events | POLLERR | POLLHUP);
		count += one->revents != 0;
	}
	return count;
}

struct poll_wait {
	struct polled polled;
	struct process *process;
};

/* The scheduler asks while another fiber, perhaps of no process, is the running one. */
static bool
polled_is_ready(void *data)
{
	const struct poll_wait *wait = data;

	for (nfds_t i = 0; i < wait->polled.count; i++) {
		const struct pollfd *one = &wait->polled.fds[i];
		struct description *description =
			one->fd >= 0 ? wait->process->files[one->fd] : NULL;

		if (one->fd >= 0 && (!description || description->kind->events(description) &
							     (one->events | POLLERR | POLLHUP)))
			return true;
	}
	return false;
}

CALL(int, poll, struct pollfd *fds, nfds_t count, int timeout)
{
	struct poll_wait wait = {{fds, count}, process_self()};
	int there;

	if (timeout != 0 && event_strikes(500, "EINTR of a wait"))
		CALL_RETURN(-EINTR);
	if (timeout != 0)
		scheduler_wait("descriptors", polled_is_ready, &wait, until_ms(timeout));
	there = polled_count(&wait.polled);
	if (descriptor_after_call)
		descriptor_after_call();
	return there;
}

/* ---- events */

struct event_count {
	struct description description;
	uint64_t count;
};

static short
event_events(struct description *description)
{
	const struct event_count *event = (struct event_count *)description;

	return (short)(POLLOUT | (event->count ? POLLIN : 0));
}

static ssize_t
event_take(struct description *description, void *bytes, size_t size)
{
	struct event_count *event = (struct event_count *)description;

	if (!event->count)
		return -EAGAIN;
	memcpy(bytes, &event->count, size);
	event->count = 0;
	return (ssize_t)size;
}

static ssize_t
event_give(struct description *description, const void *bytes, size_t size)
{
	uint64_t count;

	memcpy(&count, bytes, size);
	((struct event_count *)description)->count += count;
	return (ssize_t)size;
}

static void
description_free(struct description *description)
{
	free(description);
}

static const struct description_kind kind_event = {
	.name = "an eventfd",
	.events = event_events,
	.read = event_take,
	.write = event_give,
	.free = description_free,
};

CALL(int, eventfd, unsigned int count, int flags)
{
	struct event_count *event = calloc(1, sizeof(*event));

	event->description = (struct description){.kind = &kind_event,
						  .flags = flags & EFD_NONBLOCK ? O_NONBLOCK : 0};
	event->count = count;
	CALL_RETURN(descriptor_open(&event->description));
}

/* ---- signals */

#define SIGNALS 8

struct signals {
	struct description description;
	int pending[SIGNALS];
	unsigned int count;
};

static short
signals_events(struct description *description)
{
	return ((struct signals *)description)->count ? POLLIN : 0;
}

static ssize_t
signals_take(struct description *description, void *bytes, size_t size)
{
	struct signals *signals = (struct signals *)description;
	struct signalfd_siginfo *info = bytes;

	if (!signals->count)
		return -EAGAIN;
	memset(info, 0, size);
	info->ssi_signo = (uint32_t)signals->pending[0];
	signals->count--;
	memmove(signals->pending, signals->pending + 1, sizeof(int) * signals->count);
	return (ssize_t)size;
}

static const struct description_kind kind_signals = {
	.name = "a signalfd",
	.events = signals_events,
	.read = signals_take,
	.free = description_free,
};

CALL(int, signalfd, int fd, const sigset_t *set, int flags)
{
	struct signals *signals = calloc(1, sizeof(*signals));

	(void)fd;
	(void)set;
	(void)flags;
	signals->description = (struct description){.kind = &kind_signals, .flags = O_NONBLOCK};
	CALL_RETURN(descriptor_open(&signals->description));
}

void
signals_raise(struct process *process, int signal)
{
	for (int fd = 0; fd < PROCESS_FILES; fd++) {
		struct signals *signals = (struct signals *)process->files[fd];

		if (signals && signals->description.kind == &kind_signals &&
		    signals->count < SIGNALS)
			signals->pending[signals->count++] = signal;
	}
}

/* ---- all kinds */

void
descriptor_put(struct description *description)
{
	if (--description->users)
		return;
	epoll_forget(description);
	description->kind->free(description);
}

int
descriptor_close(struct process *process, int fd)
{
	struct description *description = fd >= 0 && fd < PROCESS_FILES ? process->files[fd] : NULL;

	if (!description)
		return -EBADF;
	process->files[fd] = NULL;
	descriptor_put(description);
	return 0;
}

CALL(int, close, int fd)
{
	const int r = descriptor_close(process_self(), fd);

	if (r < 0)
		trace_fail("descriptor %d is closed, which is not open", fd);
	return 0;
}

CALL(int, dup3, int fd, int to, int flags)
{
	struct description *description = descriptor_find(fd, NULL);
	struct process *process = process_self();

	(void)flags;
	if (!description)
		CALL_RETURN(-EBADF);
	if (process->files[to])
		descriptor_close(process, to);
	process->files[to] = description;
	description->users++;
	return to;
}

static bool
description_is_readable(void *data)
{
	struct description *description = data;

	return description->kind->events(description) & (POLLIN | POLLHUP | POLLERR);
}

CALL(ssize_t, read, int fd, void *bytes, size_t size)
{
	struct description *description = descriptor_find(fd, NULL);
	ssize_t n;

	if (!description || !description->kind->read)
		CALL_RETURN(-EBADF);
	while ((n = description->kind->read(description, bytes, size)) == -EAGAIN &&
	       !(description->flags & O_NONBLOCK))
		scheduler_wait("something to read", description_is_readable, description, FOR_EVER);
	CALL_RETURN(n);
}

CALL(ssize_t, write, int fd, const void *bytes, size_t size)
{
	struct description *description = descriptor_find(fd, NULL);

	if (!description || !description->kind->write)
		CALL_RETURN(-EBADF);
	CALL_RETURN(description->kind->write(description, bytes, size));
}

CALL(int, eventfd_read, int fd, eventfd_t *count)
{
	return world_read(fd, count, sizeof(*count)) < 0 ? -1 : 0;
}

CALL(int, eventfd_write, int fd, eventfd_t count)
{
	const int r = world_write(fd, &count, sizeof(count)) < 0 ? -1 : 0;

	if (chance_once_in(8))
		scheduler_yield();
	return r;
}

/* Of the other questions, none has an answer here: no file can be cloned, has attributes or is a
 * device. */
CALL(int, ioctl, int fd, unsigned long what, ...)
{
	struct description *description = descriptor_find(fd, NULL);
	va_list arguments;
	long n;

	if (what != FIONREAD || !description || !description->kind->unread)
		CALL_RETURN(-ENOTTY);
	n = description->kind->unread(description);
	if (n < 0)
		CALL_RETURN(n);
	va_start(arguments, what);
	*va_arg(arguments, int *) = (int)n;
	va_end(arguments);
	return 0;
}
