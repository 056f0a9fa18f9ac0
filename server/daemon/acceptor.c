/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/acceptor.h"

#include "server/access/identity.h"
#include "server/daemon/listener.h"
#include "server/worker/worker.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most connections that one call accepts, while signals and other listeners wait. */
#define ACCEPTED_AT_ONCE 64

static struct worker *
least_busy(const struct acceptor *acceptor)
{
	struct worker *least = &acceptor->workers[0];
	unsigned int fewest = atomic_load_explicit(&least->connections, memory_order_relaxed);

	for (unsigned int i = 1; i < acceptor->worker_count; i++) {
		struct worker *worker = &acceptor->workers[i];
		unsigned int connections =
			atomic_load_explicit(&worker->connections, memory_order_relaxed);

		if (connections < fewest) {
			least = worker;
			fewest = connections;
		}
	}
	return least;
}

/* The places of those who have not chosen an export; 0: there is no limit. */
static unsigned int
newcomers_max(const struct acceptor *acceptor)
{
	return acceptor->max > 1 ? acceptor->max / 2 : acceptor->max;
}

/* Returns whether a client that waits can be accepted, if need be in the place of another one. */
static bool
has_place(struct acceptor *acceptor, const struct listener *listener)
{
	struct pollfd waiting = {.fd = listener->fd, .events = POLLIN};
	const unsigned int places = newcomers_max(acceptor);
	int left;

	if (!places || !newcomers_are_full(&acceptor->newcomers, places))
		return true;
	/* Nobody is ended for nobody. */
	if (poll(&waiting, 1, 0) <= 0)
		return false;
	left = newcomers_make_room(&acceptor->newcomers, places);
	acceptor->full_until = left ? clock_ms(CLOCK_MONOTONIC) + left : 0;
	return left == 0;
}

/* Milliseconds for which nobody can be accepted; 0: now. */
static int
full_for(struct acceptor *acceptor)
{
	int64_t left = acceptor->full_until - clock_ms(CLOCK_MONOTONIC);

	if (!acceptor->full_until || left <= 0 ||
	    !newcomers_are_full(&acceptor->newcomers, newcomers_max(acceptor))) {
		acceptor->full_until = 0;
		return 0;
	}
	return (int)left;
}

int
acceptor_list(struct acceptor *acceptor, struct listener *listener, struct pollfd *polled,
	      int timeout)
{
	const int full = full_for(acceptor);

	for (; listener; listener = listener->next, polled++) {
		int left = full ? full : accept_pause_left(&listener->pause);

		*polled = (struct pollfd){.fd = left ? -1 : listener->fd, .events = POLLIN};
		timeout = accept_pause_timeout(timeout, left);
	}
	return timeout;
}

static void
hand_over(struct acceptor *acceptor, int fd, const char *peer, bool private)
{
	static struct log_limit limit = LOG_LIMIT_INIT(5, 10);
	char more[LOG_LEFT_OUT];
	struct identity *identity;
	unsigned int suppressed;
	int r;

	if (acceptor->max && atomic_load(&acceptor->connections) >= acceptor->max) {
		if (log_limit_pass(&limit, &suppressed))
			log_warning(
				"%s: refused: there are %u connections already (max-connections)%s",
				peer, acceptor->max, log_left_out(suppressed, more));
		refusals_add(&acceptor->refusals, fd);
		return;
	}
	/* First, since the connection may end before worker_give() returns. */
	atomic_fetch_add(&acceptor->connections, 1);
	identity = identity_new(fd, peer);
	if (identity)
		identity->private = private;
	if (identity)
		newcomer_join(&acceptor->newcomers, &identity->newcomer, fd,
			      identity_place(identity));
	r = identity ? worker_give(least_busy(acceptor), fd, identity) : -ENOMEM;
	if (r == 0)
		return;
	if (identity)
		newcomer_leave(&identity->newcomer);
	identity_free(identity);
	atomic_fetch_sub(&acceptor->connections, 1);
	close(fd);
	if (log_limit_pass(&limit, &suppressed))
		log_error("%s: refused: %s%s", peer, strerror(-r), log_left_out(suppressed, more));
}

void
acceptor_take(struct acceptor *acceptor, struct listener *listener)
{
	for (unsigned int i = 0; i < ACCEPTED_AT_ONCE; i++) {
		char peer[PEER_MAX];
		int fd;

		if (!has_place(acceptor, listener))
			return;
		fd = listener_accept(listener, peer);
		if (fd < 0)
			return;
		hand_over(acceptor, fd, peer, listener->private);
	}
}

void
acceptor_prepare(char *const *fds)
{
	char peer[PEER_MAX];

	for (; fds && *fds; fds++)
		peer_prepare(atoi(*fds), peer);
}

void
acceptor_adopt(struct acceptor *acceptor, int fd)
{
	char peer[PEER_MAX];

	peer_prepare(fd, peer);
	hand_over(acceptor, fd, peer, false);
}
