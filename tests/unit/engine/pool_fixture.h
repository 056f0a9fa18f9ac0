/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image whose pool of contexts is limited, and threads that take and give them when told.
 */
#ifndef TESTS_UNIT_ENGINE_POOL_FIXTURE_H
#define TESTS_UNIT_ENGINE_POOL_FIXTURE_H

#include "tests/unit/fake_image.h"

#include <pthread.h>
#include <stdbool.h>

extern struct fake_image disk;

/* `contexts`: the pool's limit; 0: none. */
void
open_limited(unsigned int contexts);
void
close_disk(void);

/* On the calling thread. */
struct ioctx *
take(void);
void
give(struct ioctx *ctx);

/* Contexts of the image's pool. */
unsigned int
context_count(struct image *image);

/* A thread that takes a context when told, and gives it back when told. */
struct taker {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	enum {
		REST,
		TAKE,
		GIVE,
		LEAVE
	} order;
	struct ioctx *ctx;
	bool took; /* even if it got none */
};

void
taker_start(struct taker *taker);
/* Tells it, and does not wait. */
void
taker_order(struct taker *taker, int order);
/* Waits until it has taken what it could get, and returns that. */
struct ioctx *
taker_context(struct taker *taker);
/* Has it give its context back, and waits until it has. */
void
taker_give(struct taker *taker);
void
taker_end(struct taker *taker);

/* Waits until so many threads wait for a context. */
void
await_waiters(unsigned int count);

#endif
