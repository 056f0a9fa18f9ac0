/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clients do in a run, and what they know of the server: the supervisor and the operator say
 * so.
 */
#ifndef TESTS_SIMULATION_CLIENT_PLAN_H
#define TESTS_SIMULATION_CLIENT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct client_plan {
	const char *address;
	unsigned int sectors;   /* of the image */
	bool has_other;         /* there is another image, which nobody may write */
	unsigned int window;    /* requests at once */
	unsigned int largest;   /* sectors of a request */
	unsigned int leaves;    /* once in so many requests; 0: never */
	unsigned int impatient; /* the number of the last client that has only `patience` */
	int64_t patience;       /* for an answer; 0: all that the server may take */
	int64_t pause;          /* longest one between two requests; 0: there is none */
	bool looks;             /* those of a checkpoint look at all of it first */
	bool wants_marks;       /* a checkpoint shall be there */
	bool has_twin;          /* there is a second export of the image */
	bool twin_writes;       /* its rules let clients write there, if that is known */
	bool rules_known;
	bool reloads;              /* the server may drop what it was told */
	unsigned int rules;        /* a number, which changes with them */
	bool alone;                /* there is one client */
	bool crowded;              /* many requests wait, also for low limits */
	bool fails_allowed;        /* the disk's mood may strike: requests may fail */
	unsigned int life;         /* of a server: the number of this one */
	bool is_up;                /* nobody has ended that one */
	bool disconnects;          /* it may be about to end connections, as it was told */
	unsigned int disconnected; /* how often it has done so */
	uint32_t ended_lives;      /* a bit for each that was told to end */
};

extern struct client_plan client_plan;

/* The other image: how many sectors it has, and the write whose bytes they have. */
#define OTHER_SECTORS 200u
#define OTHER_WRITE   UINT64_MAX

#endif
