/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_loss.h"

#include "engine/backing/ceph/rbd_pending.h"

#include "common/event.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

enum rbd_loss {
	RBD_LOSS_FENCE,   /* the cluster refuses this process */
	RBD_LOSS_LOCK,    /* the lock is not this process's any more */
	RBD_LOSS_FEATURE, /* the image has no exclusive lock any more */
};

static const char *const reasons[] = {
	[RBD_LOSS_FENCE] = "another client has fenced this server and may write to the image",
	[RBD_LOSS_LOCK] = "this server has lost the image's lock, and another client may write to "
			  "the image",
	[RBD_LOSS_FEATURE] =
		"this server has lost the image's lock, because another client has disabled the "
		"image's feature exclusive-lock and may write to the image; `rbd feature enable` "
		"adds the feature again",
};

/* Ends the image's use here, and tells the log why. Any thread. */
static void
rbd_loss_declare(struct rbd_store *store, enum rbd_loss loss)
{
	if (atomic_exchange(&store->fenced, true))
		return;
	log_error(
		"%s: %s; its clients are disconnected; to open the image again, restart the server, or reload nbdloopd (SIGHUP)",
		store->path, reasons[loss]);
	event_raise(&(struct event){
		.kind = EVENT_FENCED, .subject = store->path, .text = reasons[loss]});
}

void
rbd_loss_note(struct rbd_store *store, bool changes, int result)
{
	/* The cluster refuses a client that it has fenced (ESHUTDOWN). librbd refuses changes
	 * without the lock (EROFS). */
	if (result == -ESHUTDOWN || (result == -EROFS && changes && atomic_load(&store->held)))
		rbd_loss_declare(store, RBD_LOSS_FENCE);
}

/* What still succeeds after the loss may be older than what the new owner wrote. */
void
rbd_loss_finish(struct rbd_store *store, struct backing_call *call, int result)
{
	rbd_pending_leave(store, call);
	call->done(call, atomic_load(&store->fenced) ? -ESHUTDOWN : result);
}

/* Returns whether the lock is still the one that was taken. While librbd renews its watch, it does
 * not count as the owner, but the cluster names it. */
static bool
is_still_ours(struct rbd_store *store, const struct rbd_owner *owner)
{
	bool ours;

	pthread_mutex_lock(&store->mutex);
	ours = store->owner[0] ? strcmp(owner->address, store->owner) == 0 : owner->own;
	pthread_mutex_unlock(&store->mutex);
	return ours;
}

int
rbd_loss_check(struct rbd_store *store)
{
	struct rbd_owner owner;
	uint64_t features;
	int r = store->module->features(store->image, &features);

	rbd_loss_note(store, false, r);
	if (r < 0)
		return r;
	atomic_store(&store->features, features);
	if (!atomic_load(&store->exclusive))
		return 0;
	if (!rbd_has(store, RBD_HAS_EXCLUSIVE_LOCK))
		rbd_loss_declare(store, RBD_LOSS_FEATURE);
	if (atomic_load(&store->fenced) || !atomic_load(&store->held))
		return 0;
	r = store->module->lock_owner(store->image, &owner);
	rbd_loss_note(store, false, r);
	if (r == 0 && !is_still_ours(store, &owner))
		rbd_loss_declare(store, RBD_LOSS_LOCK);
	return r;
}
