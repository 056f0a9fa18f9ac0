/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of TLS handshakes.
 */
#include "server/connection/handshakes.h"

#include "tests/lib/suite.h"
#include "tests/unit/nbd/tls_pair.h"

#include <check.h>
#include <semaphore.h>

static sem_t posted;

static void
post(struct worker *worker, struct worker_message *message)
{
	(void)worker;
	(void)message;
	sem_post(&posted);
}

/* One step, before which the client has said nothing. */
static void
step_once(struct handshake_job *job)
{
	struct tls_credentials *credentials;
	struct handshakes *handshakes;
	char *error;

	ck_assert_int_eq(sem_init(&posted, 0, 0), 0);
	ck_assert_int_eq(tls_credentials_load(&server_psk, &credentials, &error), 0);
	ck_assert_int_eq(handshakes_new(&handshakes, credentials, post), 0);
	handshakes_step(handshakes, job);
	sem_wait(&posted);
	handshakes_free(handshakes);
	sem_destroy(&posted);
}

START_TEST(step_begins_a_session)
{
	struct handshake_job job = {.session = NULL};

	step_once(&job);
	ck_assert_int_eq(job.result, TLS_MORE);
	ck_assert_ptr_nonnull(job.session);
	tls_session_free(job.session);
}
END_TEST

/* In a flood of clients that are gone, or out of time, nothing was left for the others. */
START_TEST(step_of_a_lost_client_costs_nothing)
{
	struct handshake_job job = {.abandoned = true};

	step_once(&job);
	ck_assert_int_eq(job.result, TLS_FAILED);
	ck_assert_ptr_null(job.session);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "handshakes", .begin_once = make_directory, .end_once = remove_directory},
		{.begin = begin, .end = end},
		{.test = step_begins_a_session},
		{.test = step_of_a_lost_client_costs_nothing},
		{0},
	};

	return suite_run("handshakes", cases);
}
