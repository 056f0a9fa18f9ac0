/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/crew.h"

#include "tests/nbd/client.h"

#include <check.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMBERS 32

struct crew {
	struct crew_member members[MEMBERS];
	pthread_barrier_t start;
	crew_work work;
	atomic_bool failed;
};

static void *
member_main(void *data)
{
	struct crew_member *member = data;

	pthread_barrier_wait(&member->crew->start);
	member->crew->work(member);
	return NULL;
}

void
crew_run(const struct server *server, const char *const *names, unsigned int name_count,
	 unsigned int count, crew_work work, void *data, uint64_t seed)
{
	struct crew crew = {.work = work};
	pthread_t threads[MEMBERS];

	ck_assert_uint_le(count, MEMBERS);
	pthread_barrier_init(&crew.start, NULL, count);
	for (unsigned int i = 0; i < count; i++) {
		struct crew_member *member = &crew.members[i];

		member->index = i;
		member->client = client_connect(server, names[i % name_count]);
		member->data = data;
		member->crew = &crew;
		ck_assert_int_eq(pthread_create(&threads[i], NULL, member_main, member), 0);
	}
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&crew.start);
	for (unsigned int i = 0; i < count; i++)
		ck_assert_msg(!crew.members[i].failure[0], "connection %u, LOOP_SEED=%llu: %s", i,
			      (unsigned long long)seed, crew.members[i].failure);
	for (unsigned int i = 0; i < count; i++)
		client_close(crew.members[i].client);
}

void
crew_fail(struct crew_member *member, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(member->failure, sizeof(member->failure), format, arguments);
	va_end(arguments);
	atomic_store(&member->crew->failed, true);
}

bool
crew_failed(const struct crew_member *member)
{
	return atomic_load(&member->crew->failed);
}

unsigned int
crew_rounds(unsigned int rounds)
{
	const char *text = getenv("LOOP_PART");
	unsigned long part = text ? strtoul(text, NULL, 10) : 1;

	ck_assert_msg(part > 0, "LOOP_PART=%s is no number from 1 on", text);
	return rounds / part > 0 ? (unsigned int)(rounds / part) : 1;
}
