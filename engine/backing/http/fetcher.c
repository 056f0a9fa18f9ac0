/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/fetcher.h"

#include "engine/backing/http/fetch_page.h"
#include "engine/backing/http/fetch_process.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Transfers of a page at a time: all, and while it fails. */
#define PAGE_TRANSFERS         16u
#define PAGE_TRANSFERS_FAILING 2u

/* In milliseconds: the longest wait of fetcher_open(), and the time between two looks at the clocks
 * of reads. */
#define OPEN_LIMIT  30000
#define LOOK_PERIOD 250

/* A transfer, from its order to its end. */
struct fetch_slot {
	bool busy;
	struct fetch_page *page;   /* NULL: it was closed */
	struct backing_call *call; /* NULL: it has ended before, or there was none */
};

static struct {
	pthread_mutex_t mutex; /* guards the members below, and some of pages; held for moments */
	pthread_cond_t opened; /* a page was, or not */
	struct fetch_page *pages;
	uint32_t last_id;
	bool woken; /* the thread will look */
	bool over;  /* it ends */
	bool lost;  /* nbdloop-fetch has ended: nothing succeeds any more */

	/* Constant while the thread runs. */
	int socket, event;

	/* The thread's. */
	bool full;      /* the socket takes no order now */
	uint32_t inner; /* the process that orders are for */
	int64_t looked;
	struct fetch_slot slots[FETCH_SLOTS];
	struct {
		struct fetch_answer answer;
		char data[FETCH_DATA_MAX];
	} message;
} fetcher = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Guards its members; held while the thread is started and joined. */
static struct {
	pthread_mutex_t mutex;
	unsigned int users;
	pthread_t thread;
} fetcher_life = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The caller holds the mutex. */
static void
fetcher_wake(void)
{
	if (!fetcher.woken)
		eventfd_write(fetcher.event, 1);
	fetcher.woken = true;
}

/* ---- the end of reads */

/* Reads that have ended, for fetcher_finish(). */
struct fetch_ended {
	struct backing_call *first;
};

static void
fetcher_end_call(struct fetch_ended *ended, struct backing_call *call, int result)
{
	call->result = result;
	call->next = ended->first;
	ended->first = call;
}

/* Without the mutex. */
static void
fetcher_finish(struct fetch_ended *ended)
{
	while (ended->first) {
		struct backing_call *call = ended->first;

		ended->first = call->next;
		call->done(call, call->result);
	}
}

/* The caller holds the mutex, as for the functions below, unless a comment says otherwise. */
static void
page_open_ended(struct fetch_page *page, int result, const char *why)
{
	page->opened = true;
	page->result = result;
	if (result < 0)
		snprintf(page->why, sizeof(page->why), "%s", why);
	pthread_cond_broadcast(&fetcher.opened);
}

static void
fetcher_lose(struct fetch_ended *ended)
{
	if (fetcher.lost)
		return;
	fetcher.lost = true;
	log_error(FETCH_PROGRAM " has ended: reads of images on web servers fail until the "
				"server is started again");
	for (unsigned int i = 0; i < FETCH_SLOTS; i++) {
		struct fetch_slot *slot = &fetcher.slots[i];

		if (slot->call)
			fetcher_end_call(ended, slot->call, -EIO);
		*slot = (struct fetch_slot){.busy = false};
	}
	for (struct fetch_page *page = fetcher.pages; page; page = page->next) {
		while (page->waiting)
			fetcher_end_call(ended, fetch_page_take_waiting(page), -EIO);
		if (!page->opened)
			page_open_ended(page, -EPIPE, FETCH_PROGRAM " has ended");
	}
}

/* ---- failures */

static void
page_end_late(struct fetch_page *page, struct backing_call *call, int result, int64_t now,
	      struct fetch_ended *ended)
{
	if (!page->why[0])
		fetch_page_failed(page, "the server sends nothing", call->since);
	if (result == -EIO)
		fetch_page_tell_failure(page, now);
	fetcher_end_call(ended, call, result);
}

/* ---- orders */

/* Returns 0; -EAGAIN: not now; or -EPIPE: nbdloop-fetch has ended. */
static int
fetcher_send(struct fetch_order *order, const char *text, size_t length, int fd)
{
	struct iovec parts[] = {{order, sizeof(*order)}, {(void *)(uintptr_t)text, length}};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	order->inner = fetcher.inner;
	if (fd >= 0) {
		struct cmsghdr *header;

		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	if (sendmsg(fetcher.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
		return -EPIPE;
	fetcher.full = true;
	return -EAGAIN;
}

/* Returns the number of a free slot, or FETCH_SLOTS. */
static uint32_t
fetcher_free_slot(void)
{
	uint32_t i = 0;

	while (i < FETCH_SLOTS && fetcher.slots[i].busy)
		i++;
	return i;
}

static void
slot_occupy(uint32_t i, struct fetch_page *page, struct backing_call *call)
{
	fetcher.slots[i] = (struct fetch_slot){.busy = true, .page = page, .call = call};
	page->transfers++;
}

static void
slot_release(struct fetch_slot *slot)
{
	if (slot->page)
		slot->page->transfers--;
	*slot = (struct fetch_slot){.busy = false};
}

static int
page_introduce(struct fetch_page *page)
{
	char text[FETCH_URL_MAX + FETCH_VALIDATOR_MAX];
	size_t url = strlen(page->url) + 1, validator = 0;
	uint32_t slot = page->opened ? 0 : fetcher_free_slot();
	struct fetch_order order = {
		.type = FETCH_OPEN,
		.page = page->id,
		.slot = slot,
		.offset = page->opened ? page->size : FETCH_SIZE_UNKNOWN,
	};
	int r;

	if (slot == FETCH_SLOTS)
		return -EAGAIN;
	memcpy(text, page->url, url);
	if (page->opened) {
		validator = strlen(page->validator) + 1;
		memcpy(text + url, page->validator, validator);
	}
	r = fetcher_send(&order, text, url + validator, page->ca_fd);
	if (r < 0)
		return r;
	page->known = true;
	if (!page->opened)
		slot_occupy(slot, page, NULL);
	return 0;
}

static int
page_send_read(struct fetch_page *page, int64_t now)
{
	struct backing_call *call = page->waiting;
	uint32_t slot = fetcher_free_slot();
	struct fetch_order order = {
		.type = FETCH_READ,
		.page = page->id,
		.slot = slot,
		.offset = call->offset + (uint64_t)call->result,
		.length = (uint32_t)(call->length - (size_t)call->result),
	};
	int r = slot == FETCH_SLOTS ? -EAGAIN : fetcher_send(&order, NULL, 0, -1);

	if (r < 0)
		return r;
	fetch_page_take_waiting(page);
	/* A read that waited for others begins now; one that failed keeps its time. */
	if (!page->failing_since)
		call->since = now;
	slot_occupy(slot, page, call);
	return 0;
}

static int
page_send_orders(struct fetch_page *page, int64_t now)
{
	unsigned int most = page->failing_since ? PAGE_TRANSFERS_FAILING : PAGE_TRANSFERS;
	int r = page->known ? 0 : page_introduce(page);

	if (!page->opened || now < page->paused)
		return r;
	while (r == 0 && page->waiting && page->transfers < most)
		r = page_send_read(page, now);
	return r;
}

/* Its transfers go on until nbdloop-fetch has ended them. */
static int
page_forget(struct fetch_page *page)
{
	struct fetch_order order = {.type = FETCH_CLOSE, .page = page->id};
	int r = page->known ? fetcher_send(&order, NULL, 0, -1) : 0;

	if (r < 0)
		return r;
	for (unsigned int i = 0; i < FETCH_SLOTS; i++) {
		if (fetcher.slots[i].page == page)
			fetcher.slots[i].page = NULL;
	}
	return 0;
}

static void
fetcher_send_orders(int64_t now, struct fetch_ended *ended)
{
	struct fetch_page **at = &fetcher.pages;
	int r = 0;

	while (*at && r == 0) {
		struct fetch_page *page = *at;

		if (fetcher.lost)
			r = 0;
		else if (page->closing)
			r = page_forget(page);
		else
			r = page_send_orders(page, now);
		if (r == 0 && page->closing) {
			*at = page->next;
			fetch_page_free(page);
		} else {
			/* Without a free slot, other pages may still have something to say. */
			if (r == -EAGAIN && !fetcher.full)
				r = 0;
			at = &page->next;
		}
	}
	if (r == -EPIPE)
		fetcher_lose(ended);
}

/* ---- the time of reads */

static void
fetcher_look_at_slots(int64_t now, struct fetch_ended *ended)
{
	for (uint32_t i = 0; i < FETCH_SLOTS; i++) {
		struct fetch_slot *slot = &fetcher.slots[i];
		struct fetch_order order = {.type = FETCH_CANCEL, .slot = i};
		int result;

		if (!slot->call || !slot->page ||
		    !fetch_page_is_late(slot->page, slot->call->since, now, &result) ||
		    fetcher_send(&order, NULL, 0, -1) < 0)
			continue;
		page_end_late(slot->page, steal_pointer(&slot->call), result, now, ended);
	}
}

/* Reads that only wait for others' transfers are not late. */
static void
page_look_at_waiting(struct fetch_page *page, int64_t now, struct fetch_ended *ended)
{
	struct backing_call *call = page->waiting, *next;
	int result;

	page->waiting = NULL;
	page->waiting_tail = &page->waiting;
	for (; call; call = next) {
		next = call->next;
		if (fetch_page_is_late(page,
				       call->since > page->progress ? call->since : page->progress,
				       now, &result))
			page_end_late(page, call, result, now, ended);
		else
			fetch_page_queue(page, call);
	}
}

/* Returns for how many milliseconds nothing has to be done without an answer or a call; -1: for
 * ever. */
static int
fetcher_look(int64_t now, struct fetch_ended *ended)
{
	bool busy = false;

	if (now - fetcher.looked >= LOOK_PERIOD) {
		fetcher.looked = now;
		fetcher_look_at_slots(now, ended);
		for (struct fetch_page *page = fetcher.pages; page; page = page->next)
			page_look_at_waiting(page, now, ended);
	}
	for (struct fetch_page *page = fetcher.pages; page && !busy; page = page->next)
		busy = page->waiting || page->transfers > 0 || !page->known;
	return busy && !fetcher.lost ? LOOK_PERIOD : -1;
}

/* ---- answers */

/* Copies the text behind an answer; without characters that are not for a log. */
static void
fetcher_copy_text(char *text, size_t size, size_t length)
{
	size_t i = 0;

	for (; i < length && i + 1 < size && fetcher.message.data[i]; i++)
		text[i] = fetcher.message.data[i] < ' ' || fetcher.message.data[i] > '~'
				  ? '?'
				  : fetcher.message.data[i];
	text[i] = '\0';
}

/* Without the mutex: nobody else writes into the buffer of a read that has a slot. Returns false if
 * this is no answer to what was asked. */
static bool
fetcher_take_data(struct fetch_slot *slot, size_t length, int64_t now)
{
	struct backing_call *call = slot->call;
	size_t had;

	/* It has ended. */
	if (!call)
		return true;
	had = (size_t)call->result;
	if (fetcher.message.answer.offset != call->offset + had || length > call->length - had)
		return false;
	memcpy((char *)call->buffer + had, fetcher.message.data, length);
	call->result += (int)length;
	call->since = slot->page->progress = now;
	return true;
}

static bool
fetcher_take_opened(struct fetch_slot *slot, size_t length)
{
	struct fetch_page *page = slot->page;

	if (!page)
		return true;
	if (page->opened || fetcher.message.answer.offset > INT64_MAX)
		return false;
	page->size = fetcher.message.answer.offset;
	fetcher_copy_text(page->validator, sizeof(page->validator), length);
	return true;
}

static void
fetcher_take_failure(struct fetch_page *page, struct backing_call *call, int result,
		     const char *why, int64_t now, struct fetch_ended *ended)
{
	fetch_page_failed(page, why, now);
	if (!call)
		return;
	if (!fetcher.message.answer.keeps || (size_t)call->result == call->length)
		call->result = 0;
	if (result == -ESTALE) {
		fetch_page_tell_failure(page, now);
		fetcher_end_call(ended, call, -EIO);
	} else if (page->stops) {
		fetcher_end_call(ended, call, -ESHUTDOWN);
	} else {
		fetch_page_queue(page, call);
	}
}

static bool
fetcher_take_end(struct fetch_slot *slot, size_t length, int64_t now, struct fetch_ended *ended)
{
	int result = fetcher.message.answer.result;
	struct fetch_page *page = slot->page;
	struct backing_call *call = slot->call;
	char why[FETCH_TEXT_MAX];

	fetcher_copy_text(why, sizeof(why), length);
	slot_release(slot);
	if (!page)
		return true;
	if (!page->opened) {
		if (result < 0)
			page_open_ended(page, result, why);
		else
			page_open_ended(page, 0, "");
	} else if (result < 0 && result != -ECANCELED) {
		fetcher_take_failure(page, call, result, why, now, ended);
	} else if (call) {
		if (result < 0 || (size_t)call->result != call->length) {
			fetcher_end_call(ended, call, -EIO);
			return false;
		}
		fetch_page_works(page);
		fetcher_end_call(ended, call, call->result);
	}
	return true;
}

/* The transfers begin again. */
static void
fetcher_take_restart(void)
{
	fetcher.inner = fetcher.message.answer.slot;
	if (fetcher.message.answer.result != 0)
		log_warning(FETCH_PROGRAM " died, and was started again");
	for (unsigned int i = 0; i < FETCH_SLOTS; i++) {
		struct fetch_slot *slot = &fetcher.slots[i];

		if (slot->call)
			fetch_page_queue(slot->page, slot->call);
		slot_release(slot);
	}
	for (struct fetch_page *page = fetcher.pages; page; page = page->next)
		page->known = false;
}

static void
fetcher_log_confinement(size_t length)
{
	char text[FETCH_TEXT_MAX];

	fetcher_copy_text(text, sizeof(text), length);
	log_info("sandbox of " FETCH_PROGRAM ": %s", text);
}

/* `length`: of what is behind the answer. Returns false if it is none. */
static bool
fetcher_take(size_t length, int64_t now, struct fetch_ended *ended)
{
	uint32_t number = fetcher.message.answer.slot;
	struct fetch_slot *slot = number < FETCH_SLOTS ? &fetcher.slots[number] : NULL;
	bool right = slot && slot->busy;

	switch (fetcher.message.answer.type) {
	case FETCH_READY: fetcher_log_confinement(length); return true;
	case FETCH_DATA: return right && fetcher_take_data(slot, length, now);
	default: break;
	}
	pthread_mutex_lock(&fetcher.mutex);
	switch (fetcher.message.answer.type) {
	case FETCH_OPENED: right = right && fetcher_take_opened(slot, length); break;
	case FETCH_ENDED: right = right && fetcher_take_end(slot, length, now, ended); break;
	case FETCH_RESTARTED:
		fetcher_take_restart();
		right = true;
		break;
	default: right = false;
	}
	pthread_mutex_unlock(&fetcher.mutex);
	return right;
}

/* Takes what nbdloop-fetch has sent. */
static void
fetcher_receive(struct fetch_ended *ended)
{
	int64_t now = clock_ms(CLOCK_MONOTONIC);
	bool lost = false;

	/* In turns, so that calls do not wait for the end of a flood. */
	for (unsigned int i = 0; i < 64 && !lost; i++) {
		ssize_t n = recv(fetcher.socket, &fetcher.message, sizeof(fetcher.message),
				 MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		lost = n < (ssize_t)sizeof(struct fetch_answer) ||
		       !fetcher_take((size_t)n - sizeof(struct fetch_answer), now, ended);
	}
	if (!lost)
		return;
	pthread_mutex_lock(&fetcher.mutex);
	fetcher_lose(ended);
	pthread_mutex_unlock(&fetcher.mutex);
}

/* ---- the thread */

static void *
fetcher_run(void *data)
{
	struct pollfd fds[2] = {{.fd = fetcher.socket}, {.fd = fetcher.event, .events = POLLIN}};
	bool over = false;

	while (!over) {
		struct fetch_ended ended = {NULL};
		int64_t now = clock_ms(CLOCK_MONOTONIC);
		int ms;

		thread_confine(THREAD_FETCHES);
		pthread_mutex_lock(&fetcher.mutex);
		fetcher.woken = false;
		fetcher.full = false;
		fetcher_send_orders(now, &ended);
		ms = fetcher_look(now, &ended);
		over = fetcher.over;
		fds[0].fd = fetcher.lost ? -1 : fetcher.socket;
		pthread_mutex_unlock(&fetcher.mutex);
		fetcher_finish(&ended);
		if (over)
			break;
		fds[0].events = (short)(POLLIN | (fetcher.full ? POLLOUT : 0));
		fds[0].revents = fds[1].revents = 0;
		poll(fds, 2, ms);
		if (fds[1].revents) {
			eventfd_t n;

			eventfd_read(fetcher.event, &n);
		}
		if (fds[0].revents)
			fetcher_receive(&ended);
		fetcher_finish(&ended);
	}
	return data;
}

static void
fetcher_free_all(void)
{
	close(fetcher.socket);
	close(fetcher.event);
	while (fetcher.pages) {
		struct fetch_page *page = fetcher.pages;

		fetcher.pages = page->next;
		fetch_page_free(page);
	}
}

/* The caller holds the mutex of fetcher_life. */
static int
fetcher_begin(char **error)
{
	int r;

	fetcher.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fetcher.event < 0)
		return error_set(error, -errno, FETCH_PROGRAM ": no event: %s", strerror(errno));
	fetcher.socket = fetch_process_start(error);
	if (fetcher.socket < 0) {
		close(fetcher.event);
		return fetcher.socket;
	}
	thread_condition_init(&fetcher.opened);
	fetcher.over = fetcher.lost = fetcher.woken = false;
	fetcher.inner = 0;
	memset(fetcher.slots, 0, sizeof(fetcher.slots));
	r = thread_start(&fetcher_life.thread, fetcher_run, NULL);
	if (r == 0)
		return 0;
	fetcher_free_all();
	pthread_cond_destroy(&fetcher.opened);
	return error_set(error, r, FETCH_PROGRAM ": no thread can be started: %s", strerror(-r));
}

int
fetcher_join(char **error)
{
	int r = 0;

	pthread_mutex_lock(&fetcher_life.mutex);
	if (fetcher_life.users == 0)
		r = fetcher_begin(error);
	if (r == 0)
		fetcher_life.users++;
	pthread_mutex_unlock(&fetcher_life.mutex);
	return r;
}

void
fetcher_leave(void)
{
	pthread_mutex_lock(&fetcher_life.mutex);
	if (--fetcher_life.users == 0) {
		pthread_mutex_lock(&fetcher.mutex);
		fetcher.over = true;
		fetcher_wake();
		pthread_mutex_unlock(&fetcher.mutex);
		pthread_join(fetcher_life.thread, NULL);
		fetcher_free_all();
		pthread_cond_destroy(&fetcher.opened);
	}
	pthread_mutex_unlock(&fetcher_life.mutex);
}

/* ---- pages */

/* Returns 0, or -errno with the reason. */
static int
page_await_open(struct fetch_page *page, char why[FETCH_TEXT_MAX])
{
	int64_t limit = page->timeout < OPEN_LIMIT ? page->timeout : OPEN_LIMIT;
	int64_t end = clock_ms(CLOCK_MONOTONIC) + limit, left;
	int r;

	pthread_mutex_lock(&fetcher.mutex);
	page->id = ++fetcher.last_id;
	page->next = fetcher.pages;
	fetcher.pages = page;
	if (fetcher.lost)
		page_open_ended(page, -EPIPE, FETCH_PROGRAM " has ended: start the server again");
	fetcher_wake();
	while (!page->opened && (left = end - clock_ms(CLOCK_MONOTONIC)) > 0)
		thread_wait(&fetcher.opened, &fetcher.mutex, (unsigned int)left);
	r = page->opened ? page->result : -ETIMEDOUT;
	if (page->opened)
		memcpy(why, page->why, FETCH_TEXT_MAX);
	else
		snprintf(why, FETCH_TEXT_MAX, "no answer within %lld seconds",
			 (long long)limit / 1000);
	pthread_mutex_unlock(&fetcher.mutex);
	return r;
}

int
fetcher_open(const char *url, const char *ca_file, unsigned int timeout, struct fetch_page **result,
	     char **error)
{
	struct fetch_page *page = fetch_page_new(url, timeout);
	char why[FETCH_TEXT_MAX];
	int r;

	if (!page)
		return error_set(error, -ENOMEM, "%s: %s", url, strerror(ENOMEM));
	r = fetch_page_open_ca(page, ca_file, error);
	if (r < 0) {
		fetch_page_free(page);
		return r;
	}
	r = page_await_open(page, why);
	if (r < 0) {
		error_set(error, r, "%s: %s", url, why);
		fetcher_close(page);
		return r;
	}
	*result = page;
	return 0;
}

void
fetcher_close(struct fetch_page *page)
{
	if (!page)
		return;
	pthread_mutex_lock(&fetcher.mutex);
	page->closing = true;
	fetcher_wake();
	pthread_mutex_unlock(&fetcher.mutex);
}

void
fetcher_start(struct fetch_page *page, struct backing_call *call)
{
	bool lost;

	if (call->op != CALL_READ) {
		call->done(call, call->op == CALL_FLUSH ? 0 : -EROFS);
		return;
	}
	call->result = 0;
	call->since = clock_ms(CLOCK_MONOTONIC);
	pthread_mutex_lock(&fetcher.mutex);
	lost = fetcher.lost;
	if (!lost) {
		fetch_page_queue(page, call);
		fetcher_wake();
	}
	pthread_mutex_unlock(&fetcher.mutex);
	if (lost)
		call->done(call, -EIO);
}

void
fetcher_stop_waiting(struct fetch_page *page)
{
	pthread_mutex_lock(&fetcher.mutex);
	page->stops = true;
	fetcher_wake();
	pthread_mutex_unlock(&fetcher.mutex);
}

uint64_t
fetcher_size(const struct fetch_page *page)
{
	return page->size;
}

const char *
fetcher_validator(const struct fetch_page *page)
{
	return page->validator;
}

int64_t
fetcher_trouble(struct fetch_page *page, char why[FETCH_TEXT_MAX])
{
	int64_t since;

	pthread_mutex_lock(&fetcher.mutex);
	since = page->failing_since;
	memcpy(why, page->why, FETCH_TEXT_MAX);
	pthread_mutex_unlock(&fetcher.mutex);
	return since ? clock_ms(CLOCK_MONOTONIC) - since + 1 : 0;
}
