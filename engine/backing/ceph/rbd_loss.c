/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_loss.h"

#include "engine/backing/ceph/rbd_pending.h"

#include "common/log.h"

#include <errno.h>

/* The cluster refuses a client that it has fenced (ESHUTDOWN); librbd refuses changes without the
 * lock (EROFS). */
static bool
tells_loss(const struct rbd_store *store, bool changes, int result)
{
	return result == -ESHUTDOWN || (result == -EROFS && changes && atomic_load(&store->held));
}

/* tool/guard/upstream_ceph.c knows the beginnings of these. */
static const char *const reasons[] = {
	[RBD_LOSS_FENCE] = "another client has fenced this server and may write to the image",
	[RBD_LOSS_LOCK] = "this server has lost the image's lock, and another client may write to "
			  "the image",
	[RBD_LOSS_FEATURE] =
		"this server has lost the image's lock, because another client has disabled the "
		"image's feature exclusive-lock and may write to the image; `rbd feature enable` "
		"adds the feature again",
};

void
rbd_loss_declare(struct rbd_store *store, enum rbd_loss loss)
{
	if (atomic_exchange(&store->fenced, true))
		return;
	log_error("%s: %s; the connections of its clients end; the server opens the image again "
		  "after a restart, or if it is nbdloopd, after a reload (SIGHUP)",
		  store->path, reasons[loss]);
}

void
rbd_loss_note(struct rbd_store *store, bool changes, int result)
{
	if (tells_loss(store, changes, result))
		rbd_loss_declare(store, RBD_LOSS_FENCE);
}

/* What still succeeds after the loss may be older than what the new owner wrote. */
void
rbd_loss_finish(struct rbd_store *store, struct backing_call *call, int result)
{
	rbd_pending_leave(store, call);
	call->done(call, atomic_load(&store->fenced) ? -ESHUTDOWN : result);
}
