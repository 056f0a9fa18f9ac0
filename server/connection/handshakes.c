/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/handshakes.h"

#include "common/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Two, so that a slow one (a large RSA key) does not hold up all others. */
#define THREADS 2

/* Added to the niceness of the process. */
#define NICER 5

struct handshakes {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct tls_credentials *credentials; /* guarded by the mutex, as are those below */
	struct handshake_job *first, **last;
	bool over;
	pthread_t threads[THREADS];
	unsigned int started;
	void (*post)(struct worker *worker, struct worker_message *message);
};

/* The next job, with a reference of the present credentials; NULL: there will be none. */
static struct handshake_job *
next_job(struct handshakes *handshakes, struct tls_credentials **credentials)
{
	struct handshake_job *job;

	pthread_mutex_lock(&handshakes->mutex);
	while (!handshakes->first && !handshakes->over)
		pthread_cond_wait(&handshakes->changed, &handshakes->mutex);
	job = handshakes->first;
	if (job) {
		handshakes->first = job->next;
		if (!handshakes->first)
			handshakes->last = &handshakes->first;
		*credentials = tls_credentials_ref(handshakes->credentials);
	}
	pthread_mutex_unlock(&handshakes->mutex);
	return job;
}

static void *
thread_main(void *data)
{
	struct handshakes *handshakes = data;
	struct tls_credentials *credentials;
	struct handshake_job *job;

	/* Linux gives each thread a niceness of its own. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICER);
	thread_confine(THREAD_HANDSHAKES);
	while ((job = next_job(handshakes, &credentials)) != NULL) {
		if (atomic_load(&job->abandoned) ||
		    (!job->session && tls_session_new(&job->session, credentials, NULL) < 0))
			job->result = TLS_FAILED;
		else
			job->result =
				tls_session_handshake(job->session, &job->input, &job->output);
		tls_credentials_unref(credentials);
		handshakes->post(job->worker, &job->message);
	}
	return NULL;
}

int
handshakes_new(struct handshakes **made, struct tls_credentials *credentials,
	       void (*post)(struct worker *worker, struct worker_message *message))
{
	struct handshakes *handshakes = calloc(1, sizeof(*handshakes));
	int r = 0;

	if (!handshakes) {
		tls_credentials_unref(credentials);
		return -ENOMEM;
	}
	handshakes->credentials = credentials;
	handshakes->post = post;
	handshakes->last = &handshakes->first;
	pthread_mutex_init(&handshakes->mutex, NULL);
	pthread_cond_init(&handshakes->changed, NULL);
	while (r == 0 && handshakes->started < THREADS) {
		r = thread_start(&handshakes->threads[handshakes->started], thread_main,
				 handshakes);
		handshakes->started += r == 0;
	}
	if (r < 0)
		handshakes_free(handshakes);
	else
		*made = handshakes;
	return r;
}

void
handshakes_free(struct handshakes *handshakes)
{
	if (!handshakes)
		return;
	pthread_mutex_lock(&handshakes->mutex);
	handshakes->over = true;
	pthread_cond_broadcast(&handshakes->changed);
	pthread_mutex_unlock(&handshakes->mutex);
	for (unsigned int i = 0; i < handshakes->started; i++)
		pthread_join(handshakes->threads[i], NULL);
	pthread_cond_destroy(&handshakes->changed);
	pthread_mutex_destroy(&handshakes->mutex);
	tls_credentials_unref(handshakes->credentials);
	free(handshakes);
}

void
handshakes_set_credentials(struct handshakes *handshakes, struct tls_credentials *credentials)
{
	struct tls_credentials *old;

	pthread_mutex_lock(&handshakes->mutex);
	old = handshakes->credentials;
	handshakes->credentials = credentials;
	pthread_mutex_unlock(&handshakes->mutex);
	tls_credentials_unref(old);
}

struct tls_credentials *
handshakes_credentials(struct handshakes *handshakes)
{
	struct tls_credentials *credentials;

	pthread_mutex_lock(&handshakes->mutex);
	credentials = tls_credentials_ref(handshakes->credentials);
	pthread_mutex_unlock(&handshakes->mutex);
	return credentials;
}

bool
handshakes_know(struct handshakes *handshakes, const struct tls_session *session)
{
	bool known;

	pthread_mutex_lock(&handshakes->mutex);
	known = tls_session_uses(session, handshakes->credentials);
	pthread_mutex_unlock(&handshakes->mutex);
	return known;
}

void
handshakes_step(struct handshakes *handshakes, struct handshake_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&handshakes->mutex);
	*handshakes->last = job;
	handshakes->last = &job->next;
	pthread_cond_signal(&handshakes->changed);
	pthread_mutex_unlock(&handshakes->mutex);
}
