/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "engine/backing/kind.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
exports_keep_checkpoints(const struct exports *exports, struct export *export)
{
	const char *chosen = export->config->changes;
	char *CLEANUP_FREE usual = NULL;
	struct image_status status;

	image_status(export->image, &status);
	if (exports->reserved || status.backing->kind->start || (chosen && !strcmp(chosen, "none")))
		return 0;
	if (chosen)
		return checkpoints_keep(export->checkpoints, chosen, exports->user);
	/* There is no place beside a device: /dev is in memory. */
	if (status.backing->block_device)
		return 0;
	if (asprintf(&usual, "%s.changes", export->config->file) < 0)
		return -ENOMEM;
	return checkpoints_keep(export->checkpoints, usual, exports->user);
}

/* changing held.  Lists the checkpoints' sets of the export of that name, or of all exports (NULL);
 * snapshots have none.  Returns their number, -ENOENT or -ENOMEM. */
static int
list_sets(struct exports *exports, const char *export, struct checkpoints ***sets)
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
	r = list_sets(exports, export, &sets);
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
	r = list_sets(exports, export, &sets);
	if (r > 0)
		r = checkpoints_end(sets, (size_t)r, name, error);
	exports_end_change(exports);
	return r;
}
