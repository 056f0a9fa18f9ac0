/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that do work for others.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

/* Starts a thread without signals: they are for the program's own threads. Returns 0, and the
 * caller joins it; or -errno. */
int
thread_start(pthread_t *thread, void *(*run)(void *data), void *data);

/* Waits until the condition is signalled, or `ms` milliseconds are over, or for less. The caller
 * holds the mutex; the condition's clock is CLOCK_MONOTONIC. */
void
thread_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, unsigned int ms);

/* Initializes a condition for that. */
void
thread_condition_init(pthread_cond_t *condition);

#endif
