/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A budget: units (operations or bytes) that connections of several threads may use at a rate, and
 * the share that each of them gets.
 *
 * Time is handed out rather than units: one atomic number says until when all is handed out. A
 * connection that needs more than it has reserves the time after that for one portion, a ticket,
 * and waits for its beginning. As it has one ticket at a time, the connections that wait take
 * turns, whatever thread they are on, and no lock and no list is shared. What is used never exceeds
 * burst + rate * time. All times are nanoseconds of one clock; nothing else is assumed of it: if it
 * stands still, nothing is handed out, and after a jump a burst is.
 */
#ifndef SERVER_LIMIT_BUDGET_H
#define SERVER_LIMIT_BUDGET_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
	alignas(64) _Atomic uint64_t handed_out; /* all time until then, in own_time() */
	uint64_t portion;                        /* units, >= 1 */
	uint64_t interval;                       /* the time of a portion, >= 1 */
	uint64_t slack; /* how far behind it may stay: a burst without its last portion */
};

/* The share that one connection has of a budget. All zero: nothing. */
struct share {
	uint64_t units;   /* that it may use */
	uint64_t brought; /* of those, at most so many are not from this budget */
	uint64_t ticket;  /* when it gets `coming`, in the budget's own time; 0: there is none */
	uint64_t coming;  /* units */
};

/* `rate`: units per second, 1 ... INT64_MAX.  `burst`: units, up to INT64_MAX; 0: a tenth of a
 * second's. A portion is what comes in 4 ms, but at least `least`, >= 1; a smaller burst is raised
 * to it. `begun`: there is no burst yet at that time; 0: there is one. */
void
budget_init(struct budget *budget, uint64_t rate, uint64_t burst, uint64_t least, uint64_t begun);

/* Gets the share `units` units, if they are there. Tickets from up to `until`, which is not after
 * `now`, count; later ones have to wait. 0, or the time of the ticket that it has to wait for. */
uint64_t
budget_fill(struct budget *budget, struct share *share, uint64_t units, uint64_t now,
	    uint64_t until);

/* Uses units that the share has. */
static inline void
budget_pay(struct share *share, uint64_t units)
{
	share->units -= units;
	share->brought -= share->brought < units ? share->brought : units;
}

/* Takes back what was paid, whichever budget it was from. */
static inline void
budget_repay(struct share *share, uint64_t units)
{
	share->units += units;
	share->brought += units;
}

/* Returns whether all of a burst is there: the budget is as a new one. */
bool
budget_is_rested(const struct budget *budget, uint64_t now);

/* The share ends: its ticket is handed back, and what it has not used. */
void
budget_leave(struct budget *budget, struct share *share);

/* The share is one of the budget `next` from now on, and keeps up to `most` units; the others and
 * the ticket are handed back. NULL: there is no next one. */
void
budget_change(struct budget *budget, const struct budget *next, struct share *share, uint64_t most);

#endif
