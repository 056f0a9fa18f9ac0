/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop where io_uring isn't allowed: an operation is tried at once, and if it would
 * block, again when epoll reports that the descriptor is ready.
 */
#include "server/loop/loop_backend.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
/* How often descriptors are polled that epoll_ctl() failed for. */
#define UNARMED_MS 100

/* The operations that wait for a descriptor: at most one reads and one writes. */
struct watch {
	struct loop_op *in, *out;
	uint32_t armed; /* events that epoll waits for, once */
	bool known;     /* epoll has the descriptor */
};

struct epoll_state {
	int fd;
	struct watch *watches; /* by descriptor */
	size_t watch_count;
	bool unarmed;                              /* epoll_ctl() failed for some watch */
	struct loop_op *finished, **finished_tail; /* their results are in .length */
};

static int
epoll_init(struct loop *loop, bool spins)
{
	struct epoll_state *state = calloc(1, sizeof(*state));

	(void)spins;
	if (!state)
		return -ENOMEM;
	state->finished_tail = &state->finished;
	state->fd = epoll_create1(EPOLL_CLOEXEC);
	if (state->fd < 0) {
		int err = -errno;

		free(state);
		return err;
	}
	loop->state = state;
	return 0;
}

static void
epoll_fini(struct loop *loop)
{
	struct epoll_state *state = loop->state;

	close(state->fd);
	free(state->watches);
	free(state);
}

static void
epoll_finish(struct epoll_state *state, struct loop_op *op, ssize_t result)
{
	op->length = (size_t)result;
	op->next = NULL;
	*state->finished_tail = op;
	state->finished_tail = &op->next;
}

static void
epoll_complain(const char *what, int err)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);

	if (log_limit_pass(&limit, NULL))
		log_error("event loop: %s: %s; trying again%s", what, strerror(err),
			  err == ENOSPC ? " (fs.epoll.max_user_watches can be higher)" : "");
}

static struct watch *
watch_of(struct epoll_state *state, int fd)
{
	size_t count = state->watch_count ? state->watch_count : 64;
	struct watch *watches;

	if ((size_t)fd < state->watch_count)
		return &state->watches[fd];
	while (count <= (size_t)fd)
		count *= 2;
	watches = realloc(state->watches, count * sizeof(*watches));
	if (!watches)
		return NULL;
	for (size_t i = state->watch_count; i < count; i++)
		watches[i] = (struct watch){0};
	state->watches = watches;
	state->watch_count = count;
	return &watches[fd];
}

static bool
tell_epoll(const struct epoll_state *state, const struct watch *watch, int fd,
	   struct epoll_event *event)
{
	/* epoll forgets a descriptor when it is closed, and the number may be in use again. */
	if (watch->known && epoll_ctl(state->fd, EPOLL_CTL_MOD, fd, event) == 0)
		return true;
	if (watch->known && errno != ENOENT)
		return false;
	return epoll_ctl(state->fd, EPOLL_CTL_ADD, fd, event) == 0;
}

static void
epoll_arm(struct epoll_state *state, struct watch *watch, int fd)
{
	uint32_t wanted = (watch->in ? EPOLLIN | EPOLLRDHUP : 0) | (watch->out ? EPOLLOUT : 0);
	struct epoll_event event = {.events = wanted | EPOLLONESHOT, .data.fd = fd};

	if (wanted == watch->armed)
		return;
	if (tell_epoll(state, watch, fd, &event)) {
		watch->known = true;
		watch->armed = wanted;
		return;
	}
	/* An older event may still come, and does no harm. Until epoll takes the descriptor, it is
	 * polled. */
	watch->armed = 0;
	if (wanted)
		state->unarmed = true;
	epoll_complain("epoll_ctl", errno);
}

static ssize_t
epoll_attempt(struct loop_op *op)
{
	ssize_t n;

	do {
		if (op->kind == LOOP_RECV)
			n = recv(op->fd, op->buffer, op->length, MSG_DONTWAIT);
		else
			n = sendmsg(op->fd, op->message, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void
epoll_wait_for(struct epoll_state *state, struct loop_op *op)
{
	struct watch *watch = watch_of(state, op->fd);

	if (!watch) {
		epoll_complain("no memory for a descriptor", ENOMEM);
		epoll_finish(state, op, -ENOMEM);
		return;
	}
	if (op->kind == LOOP_SEND)
		watch->out = op;
	else
		watch->in = op;
	epoll_arm(state, watch, op->fd);
}

/* `all` only makes completions fewer: their meaning does not need it. */
static void
epoll_start(struct loop *loop, struct loop_op *op, bool all)
{
	struct epoll_state *state = loop->state;
	ssize_t n = op->kind == LOOP_POLL ? -EAGAIN : epoll_attempt(op);

	(void)all;
	if (n == -EAGAIN)
		epoll_wait_for(state, op);
	else
		epoll_finish(state, op, n);
}

static void
epoll_cancel(struct loop *loop, struct loop_op *op)
{
	struct epoll_state *state = loop->state;
	struct watch *watch = watch_of(state, op->fd);

	if (!watch || (watch->in != op && watch->out != op))
		return; /* it has a result already */
	if (watch->in == op)
		watch->in = NULL;
	else
		watch->out = NULL;
	epoll_arm(state, watch, op->fd);
	epoll_finish(state, op, -ECANCELED);
}

static bool
epoll_waits(struct loop *loop, const struct loop_op *op)
{
	const struct epoll_state *state = loop->state;
	const struct watch *watch =
		(size_t)op->fd < state->watch_count ? &state->watches[op->fd] : NULL;

	return watch && (watch->in == op || watch->out == op);
}

static bool
epoll_has_result(struct loop *loop, const struct loop_op *op, int *result)
{
	*result = (int)(ssize_t)op->length;
	return !epoll_waits(loop, op);
}

static void
epoll_ready(struct epoll_state *state, struct loop_op **place)
{
	struct loop_op *op = *place;
	ssize_t n = op->kind == LOOP_POLL ? 0 : epoll_attempt(op);

	if (n == -EAGAIN)
		return;
	*place = NULL;
	epoll_finish(state, op, n);
}

static void
event_came(struct epoll_state *state, const struct epoll_event *event)
{
	struct watch *watch = &state->watches[event->data.fd];

	watch->armed = 0;
	if (watch->in && event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		epoll_ready(state, &watch->in);
	if (watch->out && event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		epoll_ready(state, &watch->out);
	if (watch->in || watch->out)
		epoll_arm(state, watch, event->data.fd);
}

/* A failure must not silence a descriptor for good: epoll_ctl() is tried again, and if that fails,
 * too, the descriptor is polled. Returns the number of events. */
static int
arm_again(struct epoll_state *state, struct epoll_event events[EVENTS], int count)
{
	state->unarmed = false;
	for (size_t fd = 0; fd < state->watch_count; fd++) {
		struct watch *watch = &state->watches[fd];
		struct pollfd asked = {.fd = (int)fd,
				       .events = (short)((watch->in ? POLLIN | POLLRDHUP : 0) |
							 (watch->out ? POLLOUT : 0))};

		if (asked.events)
			epoll_arm(state, watch, (int)fd);
		/* poll() has the bits of epoll. */
		if (asked.events && !watch->armed && count < EVENTS && poll(&asked, 1, 0) > 0)
			events[count++] = (struct epoll_event){
				.events = (unsigned short)asked.revents, .data.fd = (int)fd};
	}
	return count;
}

/* Calls the present completions. An operation that they start may finish at once; its completion
 * waits for the next turn. */
static void
call_finished(struct epoll_state *state)
{
	struct loop_op *op = state->finished;

	state->finished = NULL;
	state->finished_tail = &state->finished;
	while (op) {
		struct loop_op *next = op->next;

		op->completion.done(&op->completion, (int)(ssize_t)op->length);
		op = next;
	}
}

static int
epoll_turn(struct loop *loop, int timeout_ms)
{
	struct epoll_state *state = loop->state;
	struct epoll_event events[EVENTS];
	int n, r = 0;

	if (state->unarmed && (timeout_ms < 0 || timeout_ms > UNARMED_MS))
		timeout_ms = UNARMED_MS;
	n = epoll_wait(state->fd, events, EVENTS, state->finished ? 0 : timeout_ms);
	if (n < 0 && errno != EINTR)
		r = -errno;
	if (state->unarmed)
		n = arm_again(state, events, n > 0 ? n : 0);
	for (int i = 0; i < n; i++)
		event_came(state, &events[i]);
	call_finished(state);
	return r;
}

/* An operation is tried when it is started. */
static void
epoll_submit(struct loop *loop)
{
	(void)loop;
}

static bool
epoll_is_ready(struct loop *loop)
{
	const struct epoll_state *state = loop->state;
	struct pollfd polled = {.fd = state->fd, .events = POLLIN};

	return state->finished || poll(&polled, 1, 0) > 0;
}

const struct loop_backend loop_backend_epoll = {
	.init = epoll_init,
	.fini = epoll_fini,
	.start = epoll_start,
	.cancel = epoll_cancel,
	.waits = epoll_waits,
	.has_result = epoll_has_result,
	.turn = epoll_turn,
	.submit = epoll_submit,
	.is_ready = epoll_is_ready,
};
