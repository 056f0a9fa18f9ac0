/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/export_image.h"

#include "server/exports/export_clients.h"
#include "server/exports/exports.h"
#include "server/sandbox/sandbox.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "engine/backing/image_kinds.h"
#include "engine/backing/kind.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image.h"
#include "engine/image/image_status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Seconds for the workers to forget a retired offer; they do it in their next turn. */
#define FORGET_LIMIT 5

/* ---- locks among exports of one image */

static enum lock_choice
export_lock_choice(const struct export *export)
{
	return lock_resolve(export->config->image.lock, image_writable(export->image));
}

static bool
export_locks_agree(const struct export *a, const struct export *b)
{
	if (export_lock_choice(a) == LOCK_OFF || export_lock_choice(b) == LOCK_OFF)
		return true;
	return export_lock_choice(a) == LOCK_SHARED && export_lock_choice(b) == LOCK_SHARED &&
	       image_writable(a->image) == image_writable(b->image);
}

/* The first offer in a list whose lock excludes the export from the same part of a file, or NULL.
 * One whose image was fenced excludes nobody: it can't change the image any more. */
static const struct offer *
export_find_rival(const struct offer *list, const struct export *export)
{
	while (list &&
	       (!image_meets(list->export->image, export->image) ||
		export_locks_agree(export, list->export) || image_is_fenced(list->export->image)))
		list = list->next;
	return list;
}

/* mutex held. Waits for the workers to forget a retired offer, then frees it. False: it took too
 * long. */
static bool
export_await_forgotten(struct exports *exports, const struct offer *rival,
		       const struct timespec *until)
{
	if (rival->asked && rival->pending > 0)
		return pthread_cond_timedwait(&exports->forgotten, &exports->mutex, until) !=
		       ETIMEDOUT;
	pthread_mutex_unlock(&exports->mutex);
	exports_reap(exports);
	pthread_mutex_lock(&exports->mutex);
	return true;
}

/* changing held. Waits until removed exports of the same image are about to close it; for the
 * rest, image_lock() waits. -EBUSY: clients still use them. */
static int
export_await_closed(struct exports *exports, const struct export *export, char **error)
{
	const struct offer *rival;
	unsigned int connections = 0;
	struct timespec until;
	bool in_time = true;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FORGET_LIMIT;
	pthread_mutex_lock(&exports->mutex);
	while (in_time && (rival = export_find_rival(exports->retired, export)) != NULL) {
		connections = rival->export->connections;
		if (connections > 0)
			break;
		in_time = export_await_forgotten(exports, rival, &until);
	}
	if (connections > 0)
		r = error_set(
			error, -EBUSY,
			"export \"%s\": %s is still in use: %u client%s of the removed export \"%s\" %s still connected",
			export->config->name, export->config->file, connections,
			connections == 1 ? "" : "s", rival->facts.name,
			connections == 1 ? "is" : "are");
	pthread_mutex_unlock(&exports->mutex);
	return r;
}

/* changing held. A conflict with a lock of our own is found first: image_lock() would wait for it,
 * and then could not say which export has it. */
static int
export_lock(struct exports *exports, struct export *export, char **error)
{
	const struct offer *same = export_find_rival(exports->listed, export);
	int r;

	if (same)
		return error_set(
			error, -EBUSY,
			"export \"%s\": %s is the same image as that of the export \"%s\", and they overlap; with lock=shared "
			"for both, and both writable or both read-only, one image can have several exports",
			export->config->name, export->config->file, same->facts.name);
	r = export_await_closed(exports, export, error);
	return r < 0 ? r : image_lock(export->image, image_writable(export->image), error);
}

/* ---- the record of checkpoints */

/* Returns whether the path leads to the image of the export. */
static bool
record_is_image(const char *path, const struct export *export)
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

static bool
record_is_same(const char *a, const char *b)
{
	struct stat first, second;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/* changing held. Checks that no other export, nor this one, uses the file for something else. Two
 * exports of one image have the same file by default: then the first one has it. */
static int
record_check_place(const struct exports *exports, const struct export *export, const char *path,
		   char **error)
{
	const char *name = export->config->name, *other;
	struct stat facts;

	if (record_is_image(path, export))
		return error_set(error, -EINVAL, "export \"%s\": changes=%s is the image itself",
				 name, path);
	if (export->config->changes && stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
		return error_set(error, -EINVAL, "export \"%s\": changes=%s is no regular file",
				 name, path);
	for (const struct offer *offer = exports->listed; offer; offer = offer->next) {
		if (offer->export->origin)
			continue;
		if (record_is_image(path, offer->export))
			return error_set(
				error, -EINVAL,
				"export \"%s\": changes=%s is the image of the export \"%s\"", name,
				path, offer->facts.name);
		other = export->config->changes ? checkpoints_file(offer->export->checkpoints)
						: NULL;
		if (other && record_is_same(path, other))
			return error_set(error, -EINVAL,
					 "export \"%s\": changes=%s is that of the export \"%s\" "
					 "already; each export needs a file of its own",
					 name, path, offer->facts.name);
	}
	return 0;
}

/* Returns the path by default, which the caller frees; NULL: no memory. It is beside the image
 * itself: the name that was given may be a link in another place, as the one in /proc is by which
 * nbdloop's servers open the image of a device. */
static char *
record_usual_path(const struct export *export)
{
	char *CLEANUP_FREE real = realpath(export->config->file, NULL);
	const char *file = real ? real : export->config->file;
	uint64_t start = image_offset(export->image);
	char *path;
	int n = start ? asprintf(&path, "%s.%" PRIu64 ".changes", file, start)
		      : asprintf(&path, "%s.changes", file);

	return n < 0 ? NULL : path;
}

/* changing held. Opens the record of the checkpoints of an export that is not offered yet and
 * whose image is locked: that of changes=, or by default IMAGE.changes (IMAGE.OFFSET.changes),
 * unless the image is a block device or in Ceph, or memory is reserved. 0, -ENOMEM, or -EINVAL
 * with *error: another export, or this one, has the file for something else. */
static int
export_open_record(const struct exports *exports, struct export *export, char **error)
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
	if (image_is_temporary(export->image) && chosen)
		return error_set(error, -EINVAL,
				 "export \"%s\": changes=%s is not possible: a temporary clone is "
				 "thrown away at the end, and its checkpoints with it",
				 export->config->name, chosen);
	if (image_is_temporary(export->image))
		return 0;
	/* There is no place beside a device: /dev is in memory. */
	if (!chosen && status.backing->block_device)
		return 0;
	path = chosen ? strdup(chosen) : record_usual_path(export);
	if (!path)
		return -ENOMEM;
	r = record_check_place(exports, export, path, error);
	return r < 0 ? r : checkpoints_keep(export->checkpoints, path, exports->user);
}

/* ---- its size, and its direct I/O */

/* changing held. The file has another size: the records of its other images must say so. */
static void
size_tell_others(struct exports *exports, const struct export *changed)
{
	for (struct offer *offer = exports->listed; offer; offer = offer->next) {
		if (offer->export != changed && image_same(offer->export->image, changed->image))
			checkpoints_resized(offer->export->checkpoints);
	}
}

/* changing held. */
static int
export_change_image(struct exports *exports, struct offer *offer, const bool *direct, char **error)
{
	struct image *image = offer->export->image;
	int r = direct ? image_set_direct(image, *direct, error) : image_resize(image, error);

	/* The file may have lost bytes that it gets back later. */
	if (r < 0 && !direct)
		checkpoints_spoil(offer->export->checkpoints);
	checkpoints_resized(offer->export->checkpoints);
	if (!direct)
		size_tell_others(exports, offer->export);
	return r < 0 ? r : exports_refresh(exports, offer);
}

static int
exports_change_image(struct exports *exports, const char *name, const bool *direct, char **error)
{
	struct offer *offer = exports_begin_change(exports, name);
	int r;

	*error = NULL;
	r = offer ? export_change_image(exports, offer, direct, error) : -ENOENT;
	exports_end_change(exports);
	return r;
}

int
exports_set_direct(struct exports *exports, const char *name, bool on, char **error)
{
	return exports_change_image(exports, name, &on, error);
}

int
exports_resize(struct exports *exports, const char *name, char **error)
{
	return exports_change_image(exports, name, NULL, error);
}

int
export_adopt_size(struct exports *exports, struct export *export, bool shrunk)
{
	bool adopted = image_adopt_size(export->image);
	struct offer *offer;

	/* What an image lost when it was made smaller has changed, also if it is large again by
	 * now. */
	if (shrunk || !adopted)
		checkpoints_spoil(export->checkpoints);
	checkpoints_resized(export->checkpoints);
	size_tell_others(exports, export);
	/* NULL: it was removed, and only its clients are left. */
	pthread_mutex_lock(&exports->mutex);
	for (offer = exports->listed; offer && offer->export != export; offer = offer->next)
		;
	pthread_mutex_unlock(&exports->mutex);
	return offer ? exports_refresh(exports, offer) : 0;
}

/* Does not wait for `changing`: who holds it may be about to close the image, and would wait for
 * this call. */
static bool
export_follow_size(void *data, bool shrunk)
{
	struct export *export = data;
	struct exports *exports = export->exports;
	int r;

	if (pthread_mutex_trylock(&exports->changing) != 0)
		return false;
	r = export_adopt_size(exports, export, shrunk);
	exports_end_change(exports);
	return r == 0;
}

void
exports_follow_size(struct export *export)
{
	image_follow_size(export->image, export_follow_size, export);
}

/* ---- opening */

static int
export_check_writable(const struct export *export, char **error)
{
	struct image_status status;

	if (export->config->read_only != TRISTATE_OFF || image_writable(export->image))
		return 0;
	image_status(export->image, &status);
	return error_set(error, -EACCES, "%s: read-only=off is not possible: %s",
			 export->config->file, status.read_only_reason);
}

int
export_open(struct exports *exports, struct export *export, char **error)
{
	const struct export_config *config = export->config;
	/* Only its clones are written to. */
	const bool reads = config->read_only == TRISTATE_ON || config->clone != CLONE_OFF;
	int r = image_open(AT_FDCWD, config->file, reads ? BACKING_READ_ONLY : 0, &config->image,
			   &export->image, error);

	if (r == 0 && config->clone == CLONE_OFF)
		r = export_check_writable(export, error);
	if (r == 0 && !export->origin)
		r = export_begin_limits(export);
	if (r < 0)
		return r;
	if (exports->reserved && !image_survives_fork(export->image))
		return error_set(error, -EOPNOTSUPP,
				 "%s: --swap is not possible: %s needs new memory for each request",
				 config->file, image_kind_of(config->file)->library);
	if (exports->reserved && image_is_temporary(export->image))
		return error_set(error, -EOPNOTSUPP,
				 "%s: --swap is not possible with temporary=on: a clone needs new "
				 "memory for its map",
				 config->file);
	export->threads = exports->worker_count;
	export->traffic = traffic_new(export->threads);
	export->checkpoints = checkpoints_new(export->image);
	r = export->traffic && export->checkpoints ? export_lock(exports, export, error) : -ENOMEM;
	return r < 0 ? r : export_open_record(exports, export, error);
}

int
exports_open(struct exports *exports, struct export_config *config, char **error)
{
	struct export *export = calloc(1, sizeof(*export));
	int r;

	if (!export) {
		export_config_free(config);
		return -ENOMEM;
	}
	export->exports = exports;
	export->config = config;
	r = sandbox_admits(config->file, error);
	if (r == 0 && config_makes_clones(config) && config->image.scratch)
		r = sandbox_admits(config->image.scratch, error);
	if (r == 0)
		r = export_open(exports, export, error);
	if (r < 0) {
		export_refuse(exports, export, r, *error);
		return r;
	}
	r = exports_offer(exports, export, config->access, error);
	if (r == 0)
		exports_follow_size(export);
	return r;
}
