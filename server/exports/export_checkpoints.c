/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "engine/backing/kind.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- where they are kept */

/* Whether the path leads to the image of the export. */
static bool
is_image(const char *path, const struct export *export)
{
	const struct backing *backing;
	struct image_status status;
	struct stat facts;

	image_status(export->image, &status);
	backing = status.backing;
	if (backing->kind->start || stat(path, &facts) < 0)
		return false;
	if (backing->block_device)
		return S_ISBLK(facts.st_mode) && facts.st_rdev == backing->device;
	return S_ISREG(facts.st_mode) && facts.st_dev == backing->device &&
	       facts.st_ino == backing->inode;
}

/* Whether there is something that can't be a record. */
static bool
is_no_file(const char *path)
{
	struct stat facts;

	return stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
}

static bool
is_same_file(const char *a, const char *b)
{
	struct stat first, second;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/* changing held.  Checks that no other export, nor this one, uses the file for something else.  Two
 * exports of one image have the same file by default: then the first one has it. */
static int
check_place(const struct exports *exports, const struct export *export, const char *path,
	    char **error)
{
	const char *name = export->config->name, *other;

	if (is_image(path, export))
		return error_set(error, -EINVAL, "export \"%s\": changes=%s is the image itself",
				 name, path);
	if (export->config->changes && is_no_file(path))
		return error_set(error, -EINVAL, "export \"%s\": changes=%s is no regular file",
				 name, path);
	for (const struct offer *offer = exports->listed; offer; offer = offer->next) {
		if (offer->export->origin)
			continue;
		if (is_image(path, offer->export))
			return error_set(
				error, -EINVAL,
				"export \"%s\": changes=%s is the image of the export \"%s\"", name,
				path, offer->facts.name);
		other = export->config->changes ? checkpoints_file(offer->export->checkpoints)
						: NULL;
		if (other && is_same_file(path, other))
			return error_set(error, -EINVAL,
					 "export \"%s\": changes=%s is that of the export \"%s\" "
					 "already; each export needs a file of its own",
					 name, path, offer->facts.name);
	}
	return 0;
}

/* Returns the path by default, which the caller frees; NULL: no memory.  It is beside the image
 * itself: the name that was given may be a link in another place, as the one in /proc is by which
 * nbdloop's servers open the image of a device. */
static char *
usual_path(const struct export *export)
{
	char *CLEANUP_FREE real = realpath(export->config->file, NULL);
	const char *file = real ? real : export->config->file;
	uint64_t start = image_start(export->image);
	char *path;
	int n = start ? asprintf(&path, "%s.%" PRIu64 ".changes", file, start)
		      : asprintf(&path, "%s.changes", file);

	return n < 0 ? NULL : path;
}

int
exports_keep_checkpoints(const struct exports *exports, struct export *export, char **error)
{
	const char *chosen = export->config->changes;
	char *CLEANUP_FREE path = NULL;
	struct image_status status;
	int r;

	image_status(export->image, &status);
	if (exports->reserved || (chosen && !strcmp(chosen, "none")))
		return 0;
	if (status.backing->kind->checkpoints && chosen)
		return error_set(error, -EINVAL,
				 "export \"%s\": changes=%s is not possible: the checkpoints of "
				 "%s are in the cluster",
				 export->config->name, chosen, status.path);
	if (status.backing->kind->checkpoints)
		return 0;
	/* There is no place beside a device: /dev is in memory. */
	if (!chosen && status.backing->block_device)
		return 0;
	path = chosen ? strdup(chosen) : usual_path(export);
	if (!path)
		return -ENOMEM;
	r = check_place(exports, export, path, error);
	return r < 0 ? r : checkpoints_keep(export->checkpoints, path, exports->user);
}

/* ---- beginning and ending */

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
