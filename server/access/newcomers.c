/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access/newcomers.h"

#include "common/clock.h"
#include "common/log.h"

#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* So many numbers of addresses are counted apart. */
#define ADDRESSES 1024

void
newcomers_init(struct newcomers *newcomers, int wake)
{
	*newcomers = (struct newcomers){.last = &newcomers->first, .wake = wake};
	pthread_mutex_init(&newcomers->mutex, NULL);
}

void
newcomer_join(struct newcomers *newcomers, struct newcomer *newcomer, int fd, uint32_t address)
{
	*newcomer = (struct newcomer){
		.all = newcomers,
		.fd = fd,
		.since = clock_ms(CLOCK_MONOTONIC),
		.address = address % ADDRESSES,
	};
	pthread_mutex_lock(&newcomers->mutex);
	newcomer->link = newcomers->last;
	*newcomers->last = newcomer;
	newcomers->last = &newcomer->next;
	newcomers->count++;
	pthread_mutex_unlock(&newcomers->mutex);
}

/* mutex held. */
static void
newcomers_remove(struct newcomers *newcomers, struct newcomer *newcomer)
{
	*newcomer->link = newcomer->next;
	if (newcomer->next)
		newcomer->next->link = newcomer->link;
	else
		newcomers->last = newcomer->link;
	newcomer->link = NULL;
	newcomers->count--;
}

void
newcomer_leave(struct newcomer *newcomer)
{
	struct newcomers *newcomers = newcomer->all;
	bool awaited;

	if (!newcomers)
		return;
	newcomer->all = NULL;
	pthread_mutex_lock(&newcomers->mutex);
	if (newcomer->link)
		newcomers_remove(newcomers, newcomer);
	awaited = newcomers->awaited;
	newcomers->awaited = false;
	pthread_mutex_unlock(&newcomers->mutex);
	if (awaited)
		eventfd_write(newcomers->wake, 1);
}

bool
newcomers_are_full(struct newcomers *newcomers, unsigned int places)
{
	bool full;

	pthread_mutex_lock(&newcomers->mutex);
	full = newcomers->count >= places;
	pthread_mutex_unlock(&newcomers->mutex);
	return full;
}

/* mutex held, and there are some. */
static struct newcomer *
find_last_wanted(const struct newcomers *newcomers)
{
	unsigned int counts[ADDRESSES] = {0}, most = 0;
	struct newcomer *newcomer;

	for (newcomer = newcomers->first; newcomer; newcomer = newcomer->next) {
		if (++counts[newcomer->address] > counts[most])
			most = newcomer->address;
	}
	newcomer = newcomers->first;
	while (newcomer->address != most)
		newcomer = newcomer->next;
	return newcomer;
}

int
newcomers_make_room(struct newcomers *newcomers, unsigned int places)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	struct newcomer *newcomer;
	int64_t left = 0;
	bool ended = false;

	pthread_mutex_lock(&newcomers->mutex);
	newcomers->awaited = false;
	if (newcomers->count >= places) {
		newcomer = find_last_wanted(newcomers);
		left = newcomer->since + NEWCOMER_GRACE - clock_ms(CLOCK_MONOTONIC);
		ended = left <= 0;
		newcomers->awaited = !ended;
		if (ended) {
			/* Its worker finds it closed. */
			shutdown(newcomer->fd, SHUT_RDWR);
			newcomers_remove(newcomers, newcomer);
		}
	}
	pthread_mutex_unlock(&newcomers->mutex);
	if (ended && log_limit_pass(&limit, NULL))
		log_warning(
			"all %u connections for clients that have not chosen an export yet are taken; the oldest are closed to let others in",
			places);
	return left > 0 ? (int)left : 0;
}
