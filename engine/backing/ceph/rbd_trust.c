/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_trust.h"

#include "engine/backing/ceph/rbd_loss.h"

#include <string.h>

/* Whether the lock is still the one that was taken. While librbd renews its watch, it does not
 * count as the owner, but the cluster names it. */
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
rbd_trust_confirm(struct rbd_store *store)
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
