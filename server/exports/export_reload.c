/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration is read again: exports are opened, removed, and follow their options.
 */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool
is_configured(const struct server_config *config, const char *name)
{
	const struct export_config *export = config->exports;

	while (export && strcmp(export->name, name) != 0)
		export = export->next;
	return export != NULL;
}

static void
log_removal(const struct offer *offer, bool configured)
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
remove_useless(struct exports *exports, const struct server_config *config)
{
	pthread_mutex_lock(&exports->mutex);
	for (struct offer **at = &exports->listed; *at;) {
		struct offer *offer = *at;
		const struct export *export = offer->export;
		bool configured = is_configured(config, offer->facts.name);
		bool again = export->reopens || image_is_fenced(export->image);

		if (export->origin || (configured && !again)) {
			at = &offer->next;
			continue;
		}
		log_removal(offer, configured);
		exports_retire(exports, export);
		at = &exports->listed;
	}
	pthread_mutex_unlock(&exports->mutex);
	exports_end_snapshots(exports);
}

/* Takes over the configuration. */
static void
follow_config(struct exports *exports, struct offer *offer, struct export_config *config)
{
	struct export *export = offer->export;
	const char *difference = export_config_difference(export->config, config);

	if (export->origin) {
		log_error("export \"%s\": there is a snapshot of that name", config->name);
		export_config_free(config);
		return;
	}
	if (exports_follow_access(exports, offer, config->access) < 0)
		log_error("export \"%s\": its rules could not be changed: out of memory",
			  config->name);
	if (exports_follow_limits(exports, export, config->limits) < 0)
		log_error("export \"%s\": its limits could not be changed: out of memory",
			  config->name);
	if (difference)
		log_warning("export \"%s\": %s has changed, which needs a restart of the server",
			    config->name, difference);
	export_config_free(config);
}

void
exports_reload(struct exports *exports, struct server_config *config)
{
	pthread_mutex_lock(&exports->changing);
	remove_useless(exports, config);
	if (exports_note_defaults(exports, &config->defaults) < 0)
		log_error(
			"the default rules and limits of exports could not be changed: out of memory");
	while (config->exports) {
		struct export_config *wanted = config->exports;
		char *CLEANUP_FREE error = NULL;
		struct offer **at;

		config->exports = wanted->next;
		wanted->next = NULL;
		pthread_mutex_lock(&exports->mutex);
		at = exports_find_or_only(exports, wanted->name);
		pthread_mutex_unlock(&exports->mutex);
		/* A listed offer stays while `changing` is held. */
		if (at)
			follow_config(exports, *at, wanted);
		else if (exports_open(exports, wanted, &error) < 0)
			log_error("%s", error ? error : "out of memory");
	}
	exports_end_change(exports);
}
