/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/watched.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"

#include <errno.h>
#include <sys/eventfd.h>

static void
answer_free(struct answer *answer)
{
	if (!answer)
		return;
	listing_free(answer->listing);
	json_decref(answer->status);
	g_free(answer->image);
	g_free(answer->trouble);
	g_free(answer);
}

struct watched *
watched_new(bool device, const char *name)
{
	struct watched *source = g_new0(struct watched, 1);

	g_atomic_ref_count_init(&source->references);
	g_mutex_init(&source->mutex);
	source->device = device;
	source->name = g_strdup(name);
	return source;
}

void
watched_drop(struct watched *source)
{
	if (!g_atomic_ref_count_dec(&source->references))
		return;
	answer_free(source->before);
	answer_free(source->now);
	answer_free(source->fresh);
	g_mutex_clear(&source->mutex);
	g_free(source->trouble);
	g_free(source->name);
	g_free(source);
}

/* ---- in a thread */

static struct answer *
ask_device(const char *name)
{
	struct answer *answer = g_new0(struct answer, 1);
	g_autoptr(GError) error = NULL;
	struct device *device = device_read_attached(name, &error);

	if (!device) {
		answer->trouble = g_strdup(error->message);
		return answer;
	}
	answer->listing = listing_new(device);
	answer->status = json_incref(answer->listing->status);
	/* Here and not where it is shown: the file system may hang, too. */
	answer->image = listing_source(answer->listing);
	answer->trouble = g_strdup(answer->listing->trouble);
	return answer;
}

static struct answer *
source_ask_server(const char *path)
{
	struct answer *answer = g_new0(struct answer, 1);
	g_autoptr(GError) error = NULL;

	answer->status = server_link_ask(path, "status", &error);
	if (!answer->status) {
		answer->trouble = g_strdup(error->message);
		answer->error = error->code;
	}
	return answer;
}

static void
source_answer(gpointer data, gpointer user_data)
{
	struct watched *source = data;
	struct answer *answer =
		source->device ? ask_device(source->name) : source_ask_server(source->name);

	answer->time = g_get_monotonic_time();
	g_mutex_lock(&source->mutex);
	answer_free(source->fresh);
	source->fresh = answer;
	source->busy = false;
	g_mutex_unlock(&source->mutex);
	watched_drop(source);
	eventfd_write(GPOINTER_TO_INT(user_data), 1);
}

GThreadPool *
watched_pool_new(int event, GError **error)
{
	/* As many threads as there are sources: hanging ones must leave some for the others. */
	return g_thread_pool_new(source_answer, GINT_TO_POINTER(event), -1, FALSE, error);
}

/* ---- the owner */

static void
read_counters(struct watched *source)
{
	struct device *DEVICE_CLEANUP device = device_read_attached(source->name, NULL);
	struct sample sample;

	if (device && sample_read(&sample, device, NULL)) {
		source->kernel_before = source->kernel_now;
		source->kernel_now = sample;
	} else {
		source->kernel_before = source->kernel_now = (struct sample){.time = 0};
	}
}

void
watched_ask(struct watched *source, GThreadPool *pool)
{
	bool busy;

	if (source->device)
		read_counters(source);
	g_mutex_lock(&source->mutex);
	busy = source->busy;
	source->busy = true;
	g_mutex_unlock(&source->mutex);
	if (busy)
		return;
	if (source->asked == 0)
		source->asked = g_get_monotonic_time();
	g_atomic_ref_count_inc(&source->references);
	/* If no thread can be started now, the pool does it later. */
	g_thread_pool_push(pool, source, NULL);
}

void
watched_take(struct watched *source)
{
	struct answer *answer;

	g_mutex_lock(&source->mutex);
	answer = g_steal_pointer(&source->fresh);
	g_mutex_unlock(&source->mutex);
	if (!answer)
		return;
	if (answer->status || !answer->trouble)
		source->asked = 0;
	g_free(source->trouble);
	source->trouble = g_strdup(answer->trouble);
	/* Without an answer of the server, the last one still tells what the source is, but there
	 * is nothing to compare. */
	answer_free(source->before);
	source->before = source->now && source->now->status ? source->now : NULL;
	if (!source->before)
		answer_free(source->now);
	source->now = answer;
}

bool
watched_is_gone(const struct watched *source)
{
	int error = source->found && source->now ? source->now->error : 0;

	return error == ENOENT || error == ECONNREFUSED;
}

bool
watched_is_denied(const struct watched *source)
{
	int error = source->found && source->now ? source->now->error : 0;

	return error == EACCES || error == EPERM;
}
