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

#endif
