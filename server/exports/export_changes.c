/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/export_changes.h"

#include "server/access/access.h"
#include "server/exports/disconnection.h"
#include "server/exports/export_image.h"
#include "server/exports/export_limits.h"
#include "server/exports/exports.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/changes/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- adding and removing */

int
exports_add(struct exports *exports, struct export_config *config, char **error)
{
	bool taken;
	int r;

	*error = NULL;
	config->next = NULL;
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	taken = exports_find(exports, config->name, strlen(config->name)) != NULL;
	pthread_mutex_unlock(&exports->mutex);
	if (taken) {
		r = error_set(error, -EINVAL, "export \"%s\": there is one of that name already",
			      config->name);
		export_config_free(config);
	} else {
		r = exports_open(exports, config, error);
	}
	exports_end_change(exports);
	return r;
}

int
exports_remove(struct exports *exports, const char *name)
{
	const struct offer *offer = exports_begin_change(exports, name);

	if (offer) {
		pthread_mutex_lock(&exports->mutex);
		exports_retire(exports, offer->export);
		pthread_mutex_unlock(&exports->mutex);
		exports_end_snapshots(exports);
	}
	exports_end_change(exports);
	return offer ? 0 : -ENOENT;
}

/* ---- who may use an export */

/* changing held. The snapshots of an export get its new rules. 0 or -ENOMEM. */
static int
export_follow_origin(struct exports *exports, const struct export *origin, struct access *access)
{
	int r = 0;

	for (struct offer *offer = exports->listed; offer && r == 0;) {
		if (offer->export->origin != origin || access_same(offer->access, access)) {
			offer = offer->next;
			continue;
		}
		r = exports_renew(exports, offer, access);
		/* The list has another offer in its place. */
		offer = exports->listed;
	}
	return r;
}

/* changing held. New clients get these rules, which may be the same. 0 or -ENOMEM. The offer may
 * be freed by then, as after exports_renew(). */
static int
export_follow_access(struct exports *exports, struct offer *offer, struct access *access)
{
	const struct export *export = offer->export;
	int r;

	/* A snapshot may lack them, if there was no memory for them before. */
	if (access_same(offer->access, access))
		return export_follow_origin(exports, export, access);
	r = exports_renew(exports, offer, access);
	if (r < 0)
		return r;
	access_log(access, export->config->name);
	return export_follow_origin(exports, export, access);
}

/* changing held. An option that is not given stays. */
static int
export_change_access(struct exports *exports, struct offer *offer, const char *allow,
		     const char *allow_write, unsigned int proofs, char **error)
{
	const struct access *old = offer->access;
	struct access *access;
	int r;

	if (old && !allow)
		allow = old->allow;
	if (old && !allow_write)
		allow_write = old->allow_write;
	r = access_new(allow, allow_write, proofs, &access, error);
	if (r == 0)
		r = export_follow_access(exports, offer, access);
	access_release(access);
	return r;
}

int
exports_set_access(struct exports *exports, const char *name, const char *allow,
		   const char *allow_write, unsigned int proofs, char **error)
{
	struct offer *offer = exports_begin_change(exports, name);
	int r;

	*error = NULL;
	r = offer ? export_change_access(exports, offer, allow, allow_write, proofs, error)
		  : -ENOENT;
	exports_end_change(exports);
	return r;
}

/* ---- checkpoints */

/* changing held. Lists the checkpoints' sets of the export of that name, or of all exports (NULL);
 * snapshots have none. Returns their number, -ENOENT or -ENOMEM. */
static int
exports_list_checkpoints(struct exports *exports, const char *export, struct checkpoints ***sets)
{
	size_t all = 0, count = 0;

	pthread_mutex_lock(&exports->mutex);
	for (const struct offer *offer = exports->listed; offer; offer = offer->next)
		all++;
	*sets = calloc(all ? all : 1, sizeof(**sets));
	for (const struct offer *offer = exports->listed; *sets && offer; offer = offer->next)
		if (!offer->export->origin && offer->export->checkpoints &&
		    (!export || strcmp(export, offer->facts.name) == 0))
			(*sets)[count++] = offer->export->checkpoints;
	pthread_mutex_unlock(&exports->mutex);
	if (!*sets)
		return -ENOMEM;
	return count > 0 ? (int)count : -ENOENT;
}

int
exports_begin_checkpoint(struct exports *exports, const char *export, const char *name,
			 uint64_t granule, char **error)
{
	struct checkpoints **CLEANUP_FREE sets = NULL;
	int r;

	*error = NULL;
	if (exports->reserved)
		return error_set(error, -EOPNOTSUPP,
				 "no checkpoints with --swap: they need new memory");
	pthread_mutex_lock(&exports->changing);
	r = exports_list_checkpoints(exports, export, &sets);
	if (r > 0)
		r = checkpoints_begin(sets, (size_t)r, name, granule, error);
	exports_end_change(exports);
	return r;
}

int
exports_end_checkpoint(struct exports *exports, const char *export, const char *name, char **error)
{
	struct checkpoints **CLEANUP_FREE sets = NULL;
	int r;

	*error = NULL;
	pthread_mutex_lock(&exports->changing);
	r = exports_list_checkpoints(exports, export, &sets);
	if (r > 0)
		r = checkpoints_end(sets, (size_t)r, name, error);
	exports_end_change(exports);
	return r;
}

/* ---- the configuration is read again */

static struct export_config *
reload_find(const struct server_config *config, const char *name)
{
	struct export_config *export = config->exports;

	while (export && strcmp(export->name, name) != 0)
		export = export->next;
	return export;
}

static void
reload_log_removal(const struct offer *offer, bool configured)
{
	unsigned int connections = atomic_load_explicit(&offer->connections, memory_order_relaxed);

	if (configured && offer->export->reopens)
		log_info("export \"%s\": its image can be written to now, and is opened again",
			 offer->facts.name);
	else if (configured)
		log_info("export \"%s\": another server has fenced this one: its image is opened "
			 "again",
			 offer->facts.name);
	else
		log_info("export \"%s\": removed; its clients stay (%u connections)",
			 offer->facts.name, connections);
}

/* Removes exports that are not in the configuration, and those that are opened again if the
 * configuration still has them: their images were fenced, so that they can serve nothing any more,
 * or can be written to now. */
static void
reload_remove(struct exports *exports, const struct server_config *config,
	      struct reload_summary *summary)
{
	pthread_mutex_lock(&exports->mutex);
	for (struct offer **at = &exports->listed; *at;) {
		struct offer *offer = *at;
		const struct export *export = offer->export;
		struct export_config *configured = reload_find(config, offer->facts.name);
		bool again = export->reopens || image_is_fenced(export->image);

		if (export->origin || (configured && !again)) {
			at = &offer->next;
			continue;
		}
		reload_log_removal(offer, configured);
		if (configured)
			configured->again = true;
		else
			summary->removed++;
		exports_retire(exports, export);
		at = &exports->listed;
	}
	pthread_mutex_unlock(&exports->mutex);
	exports_end_snapshots(exports);
}

static bool
reload_is_same(const struct offer *offer, const struct export_config *config)
{
	const struct limits *limits = offer->export->limits;

	return access_same(offer->access, config->access) &&
	       limits_same(&limits[LIMIT_EXPORT], &config->limits[LIMIT_EXPORT]) &&
	       limits_same(&limits[LIMIT_CLIENT], &config->limits[LIMIT_CLIENT]);
}

/* Takes over the configuration. */
static void
reload_follow(struct exports *exports, struct offer *offer, struct export_config *config,
	      struct reload_summary *summary)
{
	struct export *export = offer->export;
	const char *difference = export_config_difference(export->config, config);
	int access, limits;
	bool same;

	if (export->origin) {
		log_error(
			"export \"%s\": not opened, because a snapshot has that name: remove the snapshot, or rename the export",
			config->name);
		export_config_free(config);
		summary->failed++;
		return;
	}
	same = reload_is_same(offer, config);
	access = export_follow_access(exports, offer, config->access);
	limits = exports_follow_limits(exports, export, config->limits);
	if (access < 0)
		log_error("export \"%s\": its rules could not be changed: out of memory",
			  config->name);
	if (limits < 0)
		log_error("export \"%s\": its limits could not be changed: out of memory",
			  config->name);
	if (access < 0 || limits < 0)
		summary->failed++;
	else if (!same)
		summary->changed++;
	if (difference)
		log_warning("export \"%s\": %s has changed, which needs a restart of the server",
			    config->name, difference);
	export_config_free(config);
}

/* Opens an export that is new, or whose image was closed.  Takes over the configuration. */
static void
reload_open(struct exports *exports, struct export_config *config, struct reload_summary *summary)
{
	const bool again = config->again;
	char *CLEANUP_FREE error = NULL;

	if (exports_open(exports, config, &error) < 0) {
		log_error("%s", error ? error : "out of memory");
		summary->failed++;
		if (!summary->error)
			summary->error = steal_pointer(&error);
	} else if (again) {
		summary->reopened++;
	} else {
		summary->added++;
	}
}

struct reload_summary
exports_reload(struct exports *exports, struct server_config *config)
{
	struct reload_summary summary = {0};

	pthread_mutex_lock(&exports->changing);
	reload_remove(exports, config, &summary);
	if (exports_note_defaults(exports, &config->defaults) < 0)
		log_error(
			"the default rules and limits of exports could not be changed: out of memory");
	while (config->exports) {
		struct export_config *wanted = config->exports;
		struct offer **at;

		config->exports = wanted->next;
		wanted->next = NULL;
		pthread_mutex_lock(&exports->mutex);
		at = exports_find(exports, wanted->name, strlen(wanted->name));
		pthread_mutex_unlock(&exports->mutex);
		/* A listed offer stays while `changing` is held. */
		if (at)
			reload_follow(exports, *at, wanted, &summary);
		else
			reload_open(exports, wanted, &summary);
	}
	exports_end_change(exports);
	return summary;
}
