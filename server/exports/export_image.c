/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of an export's image: its direct I/O is switched, or it has another size, which others
 * may have given it. New clients are offered the image as it is then.
 */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"

#include "engine/changes/checkpoint.h"

#include <errno.h>

/* changing held. The file has another size: the records of its other images must say so. */
static void
tell_others(struct exports *exports, const struct export *changed)
{
	for (struct offer *offer = exports->listed; offer; offer = offer->next) {
		if (offer->export != changed && image_same(offer->export->image, changed->image))
			checkpoints_resized(offer->export->checkpoints);
	}
}

/* changing held. */
static int
change_image(struct exports *exports, struct offer *offer, const bool *direct, char **error)
{
	struct image *image = offer->export->image;
	int r = direct ? image_set_direct(image, *direct, error) : image_resize(image, error);

	/* The file may have lost bytes that it gets back later. */
	if (r < 0 && !direct)
		checkpoints_spoil(offer->export->checkpoints);
	checkpoints_resized(offer->export->checkpoints);
	if (!direct)
		tell_others(exports, offer->export);
	return r < 0 ? r : exports_refresh(exports, offer);
}

static int
find_and_change(struct exports *exports, const char *name, const bool *direct, char **error)
{
	struct offer **at;
	int r;

	*error = NULL;
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = exports_find_or_only(exports, name);
	pthread_mutex_unlock(&exports->mutex);
	r = at ? change_image(exports, *at, direct, error) : -ENOENT;
	exports_end_change(exports);
	return r;
}

int
exports_set_direct(struct exports *exports, const char *name, bool on, char **error)
{
	return find_and_change(exports, name, &on, error);
}

int
exports_resize(struct exports *exports, const char *name, char **error)
{
	return find_and_change(exports, name, NULL, error);
}

/* ---- the end of the server */

void
exports_stop_waiting(struct exports *exports)
{
	pthread_mutex_lock(&exports->mutex);
	for (struct offer *offer = exports->listed; offer; offer = offer->next)
		image_stop_waiting(offer->export->image);
	for (struct offer *offer = exports->retired; offer; offer = offer->next)
		image_stop_waiting(offer->export->image);
	pthread_mutex_unlock(&exports->mutex);
}

bool
exports_may_be_left(struct exports *exports)
{
	bool may;

	pthread_mutex_lock(&exports->mutex);
	may = exports->listed || exports->retired || exports->closing;
	for (struct offer *offer = exports->listed; offer; offer = offer->next)
		may = may && image_may_be_left(offer->export->image);
	for (struct offer *offer = exports->retired; offer; offer = offer->next)
		may = may && image_may_be_left(offer->export->image);
	/* What is being closed is another thread's, so it was asked before. */
	for (struct closing *closing = exports->closing; closing; closing = closing->next)
		may = may && (closing->done || closing->may_be_left);
	pthread_mutex_unlock(&exports->mutex);
	return may;
}

/* mutex held. */
static bool
list_has_snapshot(const struct offer *offer)
{
	while (offer && !offer->export->origin)
		offer = offer->next;
	return offer != NULL;
}

bool
exports_have_snapshots(struct exports *exports)
{
	bool have;

	pthread_mutex_lock(&exports->mutex);
	have = list_has_snapshot(exports->listed) || list_has_snapshot(exports->retired) ||
	       exports->closing;
	pthread_mutex_unlock(&exports->mutex);
	return have;
}

/* ---- sizes that others give the image */

/* changing held.  Returns the offer of the export to new clients, or NULL: it was removed, and only
 * its clients are left. */
static struct offer *
offer_of_export(struct exports *exports, const struct export *export)
{
	struct offer *offer;

	pthread_mutex_lock(&exports->mutex);
	for (offer = exports->listed; offer && offer->export != export; offer = offer->next)
		;
	pthread_mutex_unlock(&exports->mutex);
	return offer;
}

/* What an image lost when it was made smaller has changed, also if it is large again by now. */
static void
tell_checkpoints(const struct export *export, bool lost)
{
	if (lost)
		checkpoints_spoil(export->checkpoints);
	checkpoints_resized(export->checkpoints);
}

int
export_adopt_size(struct exports *exports, struct export *export, bool shrunk)
{
	bool adopted = image_adopt_size(export->image);
	struct offer *offer;

	tell_checkpoints(export, shrunk || !adopted);
	tell_others(exports, export);
	offer = offer_of_export(exports, export);
	return offer ? exports_refresh(exports, offer) : 0;
}

/* Does not wait for `changing`: who holds it may be about to close the image, and would wait for
 * this call. */
static bool
follow_size(void *data, bool shrunk)
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
	image_follow_size(export->image, follow_size, export);
}
