/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/held.h"

#include "server/limit/limiter.h"
#include "server/connection/conn_state.h"
#include "server/request/traffic.h"
#include "server/worker/worker_contexts.h"

#include <string.h>

/* ---- the list of the worker */

/* Keeps the order of time; a new one belongs to the end as a rule. */
static void
hold(struct conn *conn, uint64_t due, uint64_t now)
{
	struct worker *worker = conn->worker;
	struct conn *before = worker->held_last;

	while (before && before->limit.due > due)
		before = before->limit.previous;
	conn->limit.due = due;
	conn->limit.since = now;
	conn->limit.held = true;
	worker->deadlines++;
	conn->limit.previous = before;
	conn->limit.next = before ? before->limit.next : worker->held;
	*(before ? &before->limit.next : &worker->held) = conn;
	*(conn->limit.next ? &conn->limit.next->limit.previous : &worker->held_last) = conn;
}

static void
let_go(struct conn *conn)
{
	struct worker *worker = conn->worker;
	struct conn_limit *limit = &conn->limit;
	struct traffic *traffic = conn->context->traffic;

	limit->held = false;
	worker->deadlines--;
	*(limit->previous ? &limit->previous->limit.next : &worker->held) = limit->next;
	*(limit->next ? &limit->next->limit.previous : &worker->held_last) = limit->previous;
	traffic_add(&traffic->held_ns, worker_now(worker) - limit->since);
}

struct conn *
held_next(struct worker *worker)
{
	struct conn *conn = worker->held;

	if (!conn || conn->limit.due > worker_now(worker))
		return NULL;
	let_go(conn);
	return conn;
}

int
held_timeout(const struct worker *worker)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME), due = worker->held->limit.due;

	if (due <= now)
		return 0;
	return due - now < NS_PER_SECOND ? (int)((due - now + 999999) / 1000000) : 1000;
}

/* ---- paying */

/* The budget of the connection for that, or NULL: no limit. */
static struct budget *
budget_of(const struct conn *conn, enum limit_scope scope, enum limit_kind kind, unsigned int write)
{
	struct limiter *limiter = conn->limit.limiters[scope];

	return limiter ? limiter_budget(limiter, kind, write) : NULL;
}

/* The cost of a request, by limit_kind; all 0: it is free.  Requests that transport no data, but
 * touch the image, count as operations alone.  Returns 1 for changes, else 0. */
static unsigned int
cost_of(const struct nbd_request *nbd, uint64_t cost[LIMIT_KINDS])
{
	bool data = nbd->type == NBD_CMD_READ || nbd->type == NBD_CMD_WRITE;

	cost[LIMIT_IOPS] = nbd->type != NBD_CMD_FLUSH;
	cost[LIMIT_BANDWIDTH] = data ? nbd->length : 0;
	return nbd->type == NBD_CMD_WRITE || nbd->type == NBD_CMD_TRIM ||
	       nbd->type == NBD_CMD_WRITE_ZEROES;
}

static void
pay(struct conn *conn, const uint64_t cost[LIMIT_KINDS], unsigned int write)
{
	conn->limit.waits = false;
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
			if (budget_of(conn, scope, kind, write))
				budget_pay(&conn->limit.shares[scope][kind][write], cost[kind]);
		}
	}
}

static void
note_waiting(struct conn *conn, const uint64_t cost[LIMIT_KINDS], unsigned int write)
{
	conn->limit.waits = true;
	conn->limit.write = write;
	memcpy(conn->limit.cost, cost, sizeof(conn->limit.cost));
}

/* Gets what the request costs of the budgets of that scope, if it is there.  0, or the time of the
 * last ticket that it waits for. */
static uint64_t
fill_scope(struct conn *conn, enum limit_scope scope, const uint64_t cost[LIMIT_KINDS],
	   unsigned int write, uint64_t now, uint64_t until)
{
	uint64_t due = 0;

	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		struct budget *budget = budget_of(conn, scope, kind, write);
		struct share *share = &conn->limit.shares[scope][kind][write];
		uint64_t ticket = budget ? budget_fill(budget, share, cost[kind], now, until) : 0;

		due = ticket > due ? ticket : due;
	}
	return due;
}

/* The same for both scopes.  It gets nothing of the budgets that all clients share before the
 * client's own allow the request: else a client with many connections would keep from the others
 * what it may not use itself for long. */
static uint64_t
fill(struct conn *conn, const uint64_t cost[LIMIT_KINDS], unsigned int write, uint64_t now,
     uint64_t until)
{
	uint64_t due = fill_scope(conn, LIMIT_CLIENT, cost, write, now, until);

	return due ? due : fill_scope(conn, LIMIT_EXPORT, cost, write, now, until);
}

bool
held_admit(struct conn *conn, const struct nbd_request *nbd)
{
	const struct worker *worker = conn->worker;
	uint64_t now = worker_now(conn->worker), until = now, due;
	uint64_t cost[LIMIT_KINDS];
	unsigned int write = cost_of(nbd, cost);

	if (conn->life != CONN_SERVES)
		return true;
	/* Others that have waited for longer come first. */
	if (worker->held && worker->held->limit.due < until)
		until = worker->held->limit.due;
	due = fill(conn, cost, write, now, until);
	if (due == 0) {
		pay(conn, cost, write);
		return true;
	}
	/* It is one request, however often it has to wait. */
	if (!conn->limit.waits)
		traffic_add(&conn->context->traffic->held, 1);
	note_waiting(conn, cost, write);
	conn->stalled = true;
	if (!conn->stalled_since)
		conn->stalled_since = clock_seconds(CLOCK_MONOTONIC_COARSE);
	hold(conn, due, now);
	return false;
}

void
held_refund(struct conn *conn, const struct nbd_request *nbd)
{
	uint64_t cost[LIMIT_KINDS];
	unsigned int write = cost_of(nbd, cost);

	if (conn->room || conn->life != CONN_SERVES)
		return;
	note_waiting(conn, cost, write);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
			if (budget_of(conn, scope, kind, write))
				budget_repay(&conn->limit.shares[scope][kind][write], cost[kind]);
		}
	}
}

/* ---- beginning and end */

bool
held_waits(struct conn *conn)
{
	if (!conn->limit.held)
		return false;
	if (conn->life == CONN_SERVES)
		return true;
	let_go(conn);
	return false;
}

/* What the request that is not admitted yet may keep of this share. */
static uint64_t
worth_keeping(const struct conn_limit *limit, enum limit_kind kind, unsigned int write)
{
	return limit->waits && limit->write == write ? limit->cost[kind] : 0;
}

/* Leaves the present budgets of that scope for those of `next`, or NULL. */
static void
change_budgets(struct conn *conn, enum limit_scope scope, struct limiter *next)
{
	struct conn_limit *limit = &conn->limit;

	for (unsigned int kind = 0; limit->limiters[scope] && kind < LIMIT_KINDS; kind++) {
		for (unsigned int write = 0; write < 2; write++) {
			struct budget *budget = budget_of(conn, scope, kind, write);

			if (budget)
				budget_change(budget,
					      next ? limiter_budget(next, kind, write) : NULL,
					      &limit->shares[scope][kind][write],
					      worth_keeping(limit, kind, write));
		}
	}
	limiter_release(limit->limiters[scope]);
	limit->limiters[scope] = limiter_hold(next);
}

void
held_set_limiters(struct conn *conn, struct limiter *const limiters[LIMIT_SCOPES])
{
	bool limited = false, changed = false;

	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		limited = limited || limiters[scope];
		/* The same: it has joined after the change, or another scope has changed. */
		if (limiters[scope] == conn->limit.limiters[scope])
			continue;
		if (conn->limit.held)
			let_go(conn);
		change_budgets(conn, scope, limiters[scope]);
		changed = true;
	}
	if (!changed)
		return;
	conn->room = limited ? 0 : CONN_REQUESTS;
	conn_mark_dirty(conn);
}

void
held_leave(struct conn *conn)
{
	if (conn->limit.held)
		let_go(conn);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++)
		change_budgets(conn, scope, NULL);
}
