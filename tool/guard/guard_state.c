/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_state.h"

#include "common/log.h"

#include <sys/stat.h>

bool
guard_note(struct guard *guard, GError **error)
{
	const struct source *source = &guard->source;
	struct guard_progress progress = {
		.place = source->place,
		.direct_io = source->direct_io ? source->direct_io : "auto",
		.read_only = source->read_only,
	};
	struct stat st;

	if (source->image >= 0 && fstat(source->image, &st) == 0) {
		progress.device = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
		progress.inode = S_ISBLK(st.st_mode) ? 0 : st.st_ino;
	}
	return guard_record_write(&guard->record, guard->plan, &progress, error);
}

bool
guard_restore(struct guard *guard, GError **error)
{
	unsigned int count = guard->source.plan->connections;
	g_autofree bool *is_new = g_new(bool, count);

	for (unsigned int i = 0; i < count; i++)
		is_new[i] = source_lacks(&guard->source, i);
	if (!source_open(&guard->source, error))
		return false;
	if (!attachment_hand_over(&guard->attachment, &guard->source, is_new, error)) {
		source_drop(&guard->source, is_new);
		return false;
	}
	source_release(&guard->source);
	return true;
}

void
guard_tell_loss(const struct guard *guard, const char *why)
{
	log_error("%s: %s; it is started again", guard->attachment.name, why);
}
