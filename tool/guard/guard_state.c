/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_state.h"

#include "tool/device/image_file.h"

#include "common/log.h"

#include <sys/stat.h>

bool
guard_write_record(struct guard *guard, GError **error)
{
	const struct upstream *upstream = &guard->upstream;
	struct guard_progress progress = {
		.place = upstream->place,
		.direct_io = upstream->direct_io ? upstream->direct_io : "auto",
		.read_only = upstream->read_only,
	};
	struct stat st;

	if (upstream->image >= 0 && fstat(upstream->image, &st) == 0) {
		progress.device = image_file_device(&st);
		progress.inode = image_file_inode(&st);
	}
	return guard_record_write(&guard->record, guard->plan, &progress, error);
}

bool
guard_restore(struct guard *guard, GError **error)
{
	unsigned int count = guard->upstream.plan->connections;
	g_autofree bool *is_new = g_new(bool, count);

	for (unsigned int i = 0; i < count; i++)
		is_new[i] = upstream_lacks(&guard->upstream, i);
	if (!upstream_open(&guard->upstream, error))
		return false;
	if (!attachment_hand_over(&guard->attachment, &guard->upstream, is_new, error)) {
		upstream_drop(&guard->upstream, is_new);
		return false;
	}
	upstream_release(&guard->upstream);
	return true;
}

void
guard_log_loss(const struct guard *guard, const char *why)
{
	log_error("%s: %s; it is started again", guard->attachment.name, why);
}
