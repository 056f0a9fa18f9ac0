/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/attach/attach_plan.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include "common/cleanup.h"
#include "common/thread.h"
#include "engine/backing/image_kinds.h"
#include "engine/image_config.h"
#include "server/limit/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
	DEFAULT_TIMEOUT = 30, /* seconds */
};

/* The first option that was given but has no meaning for a remote server, or NULL. */
static const char *
option_for_images(const struct attach_options *options)
{
	const struct {
		bool given;
		const char *name;
	} all[] = {
		{options->offset != 0, "--offset"},
		{options->sizelimit != 0, "--sizelimit"},
		{options->temporary, "--temporary"},
		{options->scratch != NULL, "--scratch"},
		{options->direct_io != TRISTATE_AUTO, "--direct-io"},
		{options->page_cache != PAGE_CACHE_AUTO, "--page-cache"},
		{options->nooverlap, "--nooverlap"},
		{options->force, "--force"},
		{options->server != SERVER_NBDLOOPD, "--server"},
		{options->threads != 0, "--threads"},
		{options->engine != 0, "--engine"},
		{options->poll != 0, "--poll"},
		{options->iops_limit != NULL, "--iops-limit"},
		{options->bandwidth_limit != NULL, "--bandwidth-limit"},
	};

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		if (all[i].given)
			return all[i].name;
	}
	return NULL;
}

/* ---- options for one kind of images alone: engine/backing/image_kind.h */

/* The value of an option, or NULL if it was not given.  Caller frees. */
static char *
attach_kind_value(const struct option_row *row, const struct attach_options *options)
{
	char *value = option_value_text(row, options);

	if (value && strcmp(value, row->initial ? row->initial : "") != 0)
		return value;
	free(value);
	return NULL;
}

/* Whether the options suit the kind of `place`, an image or a URI. */
static bool
attach_kind_check(const struct attach_options *options, const char *place, GError **error)
{
	const struct image_kind *kind = image_kind_of(place);

	for (const struct option_row *row = attach_option_rows; row->name; row++) {
		const struct image_kind *only = image_kind_of_option(row->name);
		char *CLEANUP_FREE value = attach_kind_value(row, options);

		if (only && only != kind && value)
			return failure(error, EINVAL, "--%s is for %s, and %s is %s", row->name,
				       only->all, place, nbd_uri_is(place) ? "a URI" : kind->one);
	}
	if (options->swap && kind->library)
		return failure(error, EINVAL,
			       "--swap is not possible with %s: %s takes memory for each request, "
			       "and the network does, so that swapping out could wait for memory "
			       "that only swapping out can free",
			       place, kind->library);
	return !options->nooverlap || !kind->lock ||
	       failure(error, EINVAL,
		       "--nooverlap is not possible with %s: devices of other machines may have "
		       "the image, too; its exclusive lock admits one writer at a time",
		       place);
}

/* A temporary clone is a disk of its own, and is lost with its server. */
static bool
attach_temporary_check(const struct attach_options *options, GError **error)
{
	const char *why = NULL;

	if (!options->temporary)
		return !options->scratch || failure(error, EINVAL, "--scratch is for --temporary");
	if (options->read_only)
		why = "--read-only: nothing would be written that could be thrown away";
	else if (options->nooverlap)
		why = "--nooverlap: each clone is a disk of its own";
	else if (options->swap)
		why = "--swap: a clone needs new memory for its map";
	return !why || failure(error, EINVAL, "--temporary is not possible with %s", why);
}

/* Adds these options to a server's, in nbdloopd's form. Paths become absolute; what an environment
 * variable says is added, too, because the environment of the next server may be another one. */
static void
attach_kind_add(const struct attach_options *options, const char *place, GPtrArray *words)
{
	const struct image_kind *kind = image_kind_of(place);

	for (const struct option_row *row = attach_option_rows; row->name; row++) {
		char *CLEANUP_FREE given = attach_kind_value(row, options);
		g_autofree char *absolute = NULL;
		const char *value = given;

		if (image_kind_of_option(row->name) != kind)
			continue;
		if (!value && g_strcmp0(row->name, kind->option_from[0]) == 0)
			value = g_getenv(kind->option_from[1]);
		if (value && option_is_path(row))
			value = absolute = g_canonicalize_filename(value, NULL);
		if (value)
			g_ptr_array_add(words, g_strdup_printf("--%s=%s", row->name, value));
	}
}

/* ---- a URI */

/* A request that was not answered is sent to the next server; the old one may still have it, and
 * carry it out after a later one. */
static bool
check_servers(const struct attach_options *options, const char *text, const GPtrArray *uris,
	      GError **error)
{
	if (uris->len == 1 && options->fenced)
		return failure(error, EINVAL,
			       "--fenced is for a URI of several servers, as in nbd://a,b/name");
	return uris->len == 1 || options->fenced || options->read_only ||
	       failure(error, EINVAL,
		       "%s: with several servers, a write that one of them has not answered could be "
		       "carried out there after later ones of the next server.  If a lost server is "
		       "fenced before another one writes, say so with --fenced (nbdloop-cluster(7)); "
		       "or attach it --read-only",
		       text);
}

/* The servers differ in host and port only. */
static bool
plan_uri(const struct attach_options *options, const char *text, struct source_tls *tls,
	 GError **error)
{
	g_autoptr(GPtrArray) uris = nbd_uri_servers(text, error);
	bool planned = uris && check_servers(options, text, uris, error);

	for (guint i = 0; planned && i < uris->len; i++) {
		struct nbd_uri uri;

		source_tls_fini(tls);
		*tls = (struct source_tls){.wanted = false};
		planned = nbd_uri_parse(uris->pdata[i], &uri, error) &&
			  attach_tls_plan(&options->tls, &uri, tls, error) &&
			  (!options->swap || attach_tls_check_swap(&options->tls, error));
		nbd_uri_fini(&uri);
	}
	return planned;
}

/* ---- an image */

static GPtrArray *
server_options(const struct attach_options *options, const char *place)
{
	GPtrArray *words = g_ptr_array_new_with_free_func(g_free);
	unsigned int threads = options->threads;

	/* More of nbdloopd's threads than processors would only take memory, and time to start. */
	if (!threads && options->server == SERVER_NBDLOOPD)
		threads = MIN(options->connections, thread_processors());
	if (threads)
		g_ptr_array_add(words, g_strdup_printf("--threads=%u", threads));
	g_ptr_array_add(words, g_strdup_printf("--offset=%" PRIu64, options->offset));
	g_ptr_array_add(words, g_strdup_printf("--sizelimit=%" PRIu64, options->sizelimit));
	g_ptr_array_add(words, g_strdup_printf("--engine=%s", image_engine_names[options->engine]));
	g_ptr_array_add(words, g_strdup_printf("--poll=%s", option_off_on_auto[options->poll]));
	if (options->page_cache != PAGE_CACHE_AUTO)
		g_ptr_array_add(words,
				g_strdup_printf("--page-cache=%s",
						image_page_cache_names[options->page_cache]));
	if (options->sector_size)
		g_ptr_array_add(words,
				g_strdup_printf("--sector-size=%" PRIu64, options->sector_size));
	if (options->read_only)
		g_ptr_array_add(words, g_strdup("--read-only"));
	if (options->swap) {
		g_ptr_array_add(words, g_strdup("--swap"));
		/* It is locked into memory, and the requests of one device need less than those of
		 * many clients. */
		if (options->server == SERVER_NBDLOOPD)
			g_ptr_array_add(words, g_strdup("--memory=32M"));
	}
	attach_kind_add(options, place, words);
	return words;
}

/* Finds the errors that nbdloopd would report. */
static bool
check_limits(const struct attach_options *options, GError **error)
{
	const char *const texts[LIMIT_KINDS] = {
		[LIMIT_IOPS] = options->iops_limit, [LIMIT_BANDWIDTH] = options->bandwidth_limit};

	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		char *CLEANUP_FREE why = NULL;
		struct limit_rate rate;
		int r = limit_rate_parse(LIMIT_EXPORT, kind, texts[kind], &rate, &why);

		if (r < 0)
			return failure(error, -r, "%s", why ? why : g_strerror(-r));
		if (texts[kind] && options->server != SERVER_NBDLOOPD)
			return failure(
				error, EINVAL,
				"limits are for nbdloopd; nbdkit has its rate filter instead");
	}
	return true;
}

/* *tls: of a URI. */
static bool
attach_plan_check(const struct attach_options *options, const char *place, bool remote,
		  struct source_tls *tls, GError **error)
{
	const char *wrong = remote ? option_for_images(options) : NULL;
	const char *tls_option = remote ? NULL : attach_tls_option(&options->tls);

	if (wrong)
		return failure(error, EINVAL, "%s is for images; for %s, its server decides", wrong,
			       place);
	if (tls_option)
		return failure(error, EINVAL, "%s is for nbds:// URIs, and %s is an image",
			       tls_option, place);
	if (!remote && options->fenced)
		return failure(error, EINVAL,
			       "--fenced is for a URI of several servers, and %s is an image",
			       place);
	return attach_kind_check(options, place, error) && attach_temporary_check(options, error) &&
	       check_limits(options, error) && (!remote || plan_uri(options, place, tls, error));
}

bool
attach_options_check(const struct attach_options *options, const char *place, GError **error)
{
	struct source_tls tls = {.wanted = false};
	bool good = attach_plan_check(options, place, nbd_uri_is(place), &tls, error);

	source_tls_fini(&tls);
	return good;
}

bool
attach_options_plan(const struct attach_options *options, char *place, bool remote,
		    struct guard_plan *plan, GError **error)
{
	struct source_tls tls = {.wanted = false};
	unsigned int timeout = options->timeout, silence = 0;

	*plan = (struct guard_plan){.source.place = place};
	if (!attach_plan_check(options, place, remote, &tls, error)) {
		source_tls_fini(&tls);
		return false;
	}
	/* With several connections, the kernel always has a limit.  With one, the guard knows when
	 * the server has died, or is silent. */
	if (timeout == 0 && options->connections > 1)
		timeout = DEFAULT_TIMEOUT;
	if (timeout == 0 && remote)
		silence = DEFAULT_TIMEOUT;
	*plan = (struct guard_plan){
		.source =
			{
				.place = place,
				.remote = remote,
				.connections = options->connections,
				.silence = silence,
				.server = (enum server_kind)options->server,
				.server_options = server_options(options, place),
				.direct_io = option_off_on_auto[options->direct_io],
				.iops_limit = g_intern_string(options->iops_limit),
				.bandwidth_limit = g_intern_string(options->bandwidth_limit),
				.force = options->force,
				.tls = tls,
			},
		.attachment =
			{
				.read_only = options->read_only,
				.partscan = options->partscan,
				.block_size = (unsigned int)options->sector_size,
				.offset = options->offset,
				.sizelimit = options->sizelimit,
				.timeout = timeout,
				.dead_timeout = options->dead_timeout,
				.swap = options->swap != SWAP_OFF,
			},
	};
	return true;
}
