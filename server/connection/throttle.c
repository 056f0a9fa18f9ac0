/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/throttle.h"

#include "server/connection/conn.h"
#include "server/request/traffic.h"

#include "common/clock.h"

#include <string.h>

/* ---- the list of the worker */

/* Keeps the order of time; a new one belongs to the end as a rule. */
static void
throttle_hold(struct conn *conn, uint64_t due, uint64_t now)
{
	struct worker *worker = conn->worker;
	struct conn *before = worker->throttled_last;

	while (before && before->throttle.due > due)
		before = before->throttle.previous;
	conn->throttle.due = due;
	conn->throttle.since = now;
	conn->throttle.throttled = true;
	worker->deadlines++;
	conn->throttle.previous = before;
	conn->throttle.next = before ? before->throttle.next : worker->throttled;
	*(before ? &before->throttle.next : &worker->throttled) = conn;
	*(conn->throttle.next ? &conn->throttle.next->throttle.previous : &worker->throttled_last) =
		conn;
	traffic_add(&conn->queue.traffic->held_now, 1);
}

static void
throttle_let_go(struct conn *conn)
{
	struct worker *worker = conn->worker;
	struct conn_throttle *throttle = &conn->throttle;
	struct traffic *traffic = conn->queue.traffic;

	throttle->throttled = false;
	worker->deadlines--;
	*(throttle->previous ? &throttle->previous->throttle.next : &worker->throttled) =
		throttle->next;
	*(throttle->next ? &throttle->next->throttle.previous : &worker->throttled_last) =
		throttle->previous;
	traffic_add(&traffic->held_now, UINT64_MAX);
	traffic_add(&traffic->held_ns, request_now(&worker->pool) - throttle->since);
}

struct conn *
throttle_next(struct worker *worker)
{
	struct conn *conn = worker->throttled;

	if (!conn || conn->throttle.due > request_now(&worker->pool))
		return NULL;
	throttle_let_go(conn);
	return conn;
}

int
throttle_timeout(const struct worker *worker)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME), due = worker->throttled->throttle.due;

	if (due <= now)
		return 0;
	return due - now < NS_PER_SECOND ? (int)((due - now + 999999) / 1000000) : 1000;
}

/* ---- paying */

/* The budget of the connection for that, or NULL: no limit. */
static struct budget *
throttle_budget(const struct conn *conn, enum limit_scope scope, enum limit_kind kind,
		unsigned int write)
{
	struct limiter *limiter = conn->throttle.limiters[scope];

	return limiter ? limiter_budget(limiter, kind, write) : NULL;
}

/* The cost of a request, by limit_kind; all 0: it is free. Requests that transport no data, but
 * touch the image, count as operations alone. Returns 1 for changes, else 0. */
static unsigned int
throttle_cost(const struct nbd_request *nbd, uint64_t cost[LIMIT_KINDS])
{
	bool data = nbd->type == NBD_CMD_READ || nbd->type == NBD_CMD_WRITE;

	cost[LIMIT_IOPS] = nbd->type != NBD_CMD_FLUSH;
	cost[LIMIT_BANDWIDTH] = data ? nbd->length : 0;
	return nbd->type == NBD_CMD_WRITE || nbd->type == NBD_CMD_TRIM ||
	       nbd->type == NBD_CMD_WRITE_ZEROES;
}

static void
throttle_pay(struct conn *conn, const uint64_t cost[LIMIT_KINDS], unsigned int write)
{
	conn->throttle.waits = false;
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
			if (throttle_budget(conn, scope, kind, write))
				budget_pay(&conn->throttle.shares[scope][kind][write], cost[kind]);
		}
	}
}

static void
throttle_note_waiting(struct conn *conn, const uint64_t cost[LIMIT_KINDS], unsigned int write)
{
	conn->throttle.waits = true;
	conn->throttle.write = write;
	memcpy(conn->throttle.cost, cost, sizeof(conn->throttle.cost));
}

/* Gets what the request costs of the budgets of that scope, if it is there. 0, or the time of the
 * last ticket that it waits for. */
static uint64_t
throttle_fill_scope(struct conn *conn, enum limit_scope scope, const uint64_t cost[LIMIT_KINDS],
		    unsigned int write, uint64_t now, uint64_t until)
{
	uint64_t due = 0;

	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		struct budget *budget = throttle_budget(conn, scope, kind, write);
		struct share *share = &conn->throttle.shares[scope][kind][write];
		uint64_t ticket = budget ? budget_fill(budget, share, cost[kind], now, until) : 0;

		due = ticket > due ? ticket : due;
	}
	return due;
}

bool
throttle_admit(struct conn *conn, const struct nbd_request *nbd)
{
	const struct worker *worker = conn->worker;
	uint64_t now = request_now(conn->queue.pool), until = now, due;
	uint64_t cost[LIMIT_KINDS];
	unsigned int write = throttle_cost(nbd, cost);

	if (conn->life != CONN_SERVES)
		return true;
	/* Others that have waited for longer come first. */
	if (worker->throttled && worker->throttled->throttle.due < until)
		until = worker->throttled->throttle.due;
	due = throttle_fill_scope(conn, LIMIT_CLIENT, cost, write, now, until);
	/* The request gets nothing of the budgets that all clients share before the client's own
	 * allow it. Otherwise a client with many connections would keep from the others what it may
	 * not use itself for long. */
	if (due == 0)
		due = throttle_fill_scope(conn, LIMIT_EXPORT, cost, write, now, until);
	if (due == 0) {
		throttle_pay(conn, cost, write);
		return true;
	}
	/* It is one request, however often it has to wait. */
	if (!conn->throttle.waits)
		traffic_add(&conn->queue.traffic->held, 1);
	throttle_note_waiting(conn, cost, write);
	conn_pause(conn);
	throttle_hold(conn, due, now);
	return false;
}

void
throttle_refund(struct conn *conn, const struct nbd_request *nbd)
{
	uint64_t cost[LIMIT_KINDS];
	unsigned int write = throttle_cost(nbd, cost);

	if (conn->throttle.room || conn->life != CONN_SERVES)
		return;
	throttle_note_waiting(conn, cost, write);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
			if (throttle_budget(conn, scope, kind, write))
				budget_repay(&conn->throttle.shares[scope][kind][write],
					     cost[kind]);
		}
	}
}

/* ---- beginning and end */

bool
throttle_waits(struct conn *conn)
{
	if (!conn->throttle.throttled)
		return false;
	if (conn->life == CONN_SERVES)
		return true;
	throttle_let_go(conn);
	return false;
}

/* Leaves the present budgets of that scope for those of `next`, or NULL. */
static void
throttle_change_budgets(struct conn *conn, enum limit_scope scope, struct limiter *next)
{
	struct conn_throttle *throttle = &conn->throttle;

	for (unsigned int kind = 0; throttle->limiters[scope] && kind < LIMIT_KINDS; kind++) {
		for (unsigned int write = 0; write < 2; write++) {
			struct budget *budget = throttle_budget(conn, scope, kind, write);
			/* What the request that is not admitted yet may keep of this share. */
			const uint64_t kept = throttle->waits && throttle->write == write
						      ? throttle->cost[kind]
						      : 0;

			if (budget)
				budget_change(budget,
					      next ? limiter_budget(next, kind, write) : NULL,
					      &throttle->shares[scope][kind][write], kept);
		}
	}
	limiter_release(throttle->limiters[scope]);
	throttle->limiters[scope] = limiter_hold(next);
}

void
throttle_set_limiters(struct conn *conn, struct limiter *const limiters[LIMIT_SCOPES])
{
	bool limited = false, changed = false;

	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		limited = limited || limiters[scope];
		/* The same: it has joined after the change, or another scope has changed. */
		if (limiters[scope] == conn->throttle.limiters[scope])
			continue;
		if (conn->throttle.throttled)
			throttle_let_go(conn);
		throttle_change_budgets(conn, scope, limiters[scope]);
		changed = true;
	}
	if (!changed)
		return;
	conn->throttle.room = limited ? 0 : CONN_REQUESTS;
	conn_mark_dirty(conn);
}

void
throttle_leave(struct conn *conn)
{
	if (conn->throttle.throttled)
		throttle_let_go(conn);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++)
		throttle_change_budgets(conn, scope, NULL);
}
