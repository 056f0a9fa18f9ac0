/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/choice.h"

#include "engine/backing/kind.h"

#include "common/error.h"

#include <errno.h>
#include <stdio.h>

static const struct backend *const by_choice[] = {
	[ENGINE_IO_URING] = &backend_uring,
	[ENGINE_AIO] = &backend_aio,
	[ENGINE_THREADS] = &backend_calls,
};

static int
choice_refuse_way(int err, const struct backing *backing, const char *option, const char *value,
		  const char *reason, char **error)
{
	return error_set(error, err, "%s: %s=%s is not possible: %s; %s=auto would go without",
			 backing->path, option, value, reason, option);
}

/* Chooses the best backend that works. The reason says why each better one does not work. */
static int
choice_best(const struct backing *backing, const struct backend **backend, char reason[REASON_MAX])
{
	char why[REASON_MAX];
	size_t used = 0;

	reason[0] = '\0';
	for (unsigned int i = ENGINE_IO_URING; i <= ENGINE_THREADS; i++) {
		*backend = by_choice[i];
		if ((*backend)->probe(backing, why) == 0)
			return 0;
		used += (size_t)snprintf(reason + used, REASON_MAX - used, "%s%s", used ? "; " : "",
					 why);
		if (used >= REASON_MAX)
			used = REASON_MAX - 1;
	}
	return -EOPNOTSUPP;
}

static int
choice_engine(const struct image_config *config, const struct backing *backing,
	      const struct backend **backend, char reason[REASON_MAX], char **error)
{
	const char *name = image_engine_names[config->engine];
	char why[REASON_MAX];
	int r;

	reason[0] = '\0';
	if (backing->kind && backing->kind->start) {
		*backend = &backend_own_calls;
		snprintf(why, sizeof(why), "%s", backing->direct_reason);
		return config->engine == ENGINE_AUTO
			       ? 0
			       : choice_refuse_way(-EOPNOTSUPP, backing, "engine", name, why,
						   error);
	}
	if (config->engine == ENGINE_AUTO && backing->in_memory) {
		/* The kernel can't try such a file without waiting (RWF_NOWAIT), so io_uring would
		 * hand each call to a thread. */
		*backend = &backend_calls;
		snprintf(reason, REASON_MAX, "the image is in memory");
		return 0;
	}
	if (config->engine == ENGINE_AUTO) {
		r = choice_best(backing, backend, reason);
	} else {
		*backend = by_choice[config->engine];
		r = (*backend)->probe(backing, why);
		if (r < 0)
			choice_refuse_way(r, backing, "engine", name, why, error);
	}
	if (backing->layers && *backend == &backend_aio)
		*backend = &backend_aio_layered;
	return r;
}

int
backend_works(enum engine_choice engine, char reason[REASON_MAX])
{
	const struct backing none = {.fd = -1, .direct_fd = -1};

	return by_choice[engine]->probe(&none, reason);
}

/* Returns why polling is impossible without a test, or NULL. */
static const char *
choice_no_polling(const struct backend *backend, const struct backing *backing, bool direct)
{
	if (backend == &backend_own_calls)
		return backing->direct_reason;
	if (backend != &backend_uring)
		return "it needs the io_uring engine";
	if (!direct)
		return "it needs direct I/O, which is off";
	return NULL;
}

int
backend_choose(const struct image_config *config, const struct backing *backing, bool direct,
	       const struct backend **backend, char engine_reason[REASON_MAX],
	       char poll_reason[REASON_MAX], char **error)
{
	const char *why;
	int r = choice_engine(config, backing, backend, engine_reason, error);

	poll_reason[0] = '\0';
	if (r < 0 || config->poll == TRISTATE_OFF)
		return r;
	why = choice_no_polling(*backend, backing, direct);
	if (why)
		snprintf(poll_reason, REASON_MAX, "%s", why);
	else if (backend_polled.probe(backing, poll_reason) == 0)
		*backend = &backend_polled;
	if ((*backend)->polled || config->poll == TRISTATE_AUTO)
		return 0;
	return choice_refuse_way(-EOPNOTSUPP, backing, "poll", "on", poll_reason, error);
}
