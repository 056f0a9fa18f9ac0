/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine/native_fixture.h"

#include "tests/lib/suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct backing_snapshot {
	struct kept *of;
	char name[64];
	bool kept;
};

struct backing_removal {
	struct kept *of;
	uint64_t id;
};

struct fake_native fake;
struct image native_image;
struct checkpoints *set;
static struct range_lock ranges;

/* ---- the backing */

static size_t
fake_list(const struct backing *backing, struct backing_checkpoint list[], size_t most)
{
	const struct kept *kept = backing->state;
	size_t count = kept->count < most ? kept->count : most;

	memcpy(list, kept->list, count * sizeof(*list));
	return count;
}

static uint64_t
fake_edition(const struct backing *backing)
{
	const struct kept *kept = backing->state;

	return kept->edition;
}

static int
fake_prepare(const struct backing *backing, const char *name, struct backing_snapshot **snapshot,
	     char **error)
{
	(void)error;
	if (!backing->writable)
		return -EROFS;
	*snapshot = calloc(1, sizeof(**snapshot));
	ck_assert_ptr_nonnull(*snapshot);
	(*snapshot)->of = backing->state;
	snprintf((*snapshot)->name, sizeof((*snapshot)->name), "%s", name);
	return 0;
}

void
add_to(struct kept *kept, const char *name, uint64_t size)
{
	static uint64_t random;
	struct backing_checkpoint *one = &kept->list[kept->count++];

	*one = (struct backing_checkpoint){
		.id = ++kept->last_id, .random = ++random, .size = size, .begun = 7};
	snprintf(one->name, sizeof(one->name), "%s", name);
	kept->edition++;
}

void
take_out(struct kept *kept, uint64_t id)
{
	size_t i = 0;

	while (kept->list[i].id != id)
		i++;
	kept->count--;
	memmove(&kept->list[i], &kept->list[i + 1], (kept->count - i) * sizeof(kept->list[0]));
	kept->edition++;
}

static void
fake_keep(struct backing_snapshot *snapshot)
{
	snapshot->kept = true;
	add_to(snapshot->of, snapshot->name, UINT64_MAX);
}

static int
fake_remove(const struct backing *backing, uint64_t id, bool anyway,
	    struct backing_removal **removal, char **error)
{
	(void)anyway;
	(void)error;
	ck_assert(backing->writable);
	*removal = calloc(1, sizeof(**removal));
	ck_assert_ptr_nonnull(*removal);
	**removal = (struct backing_removal){backing->state, id};
	return 0;
}

static int
fake_await_removal(struct backing_removal *removal, int64_t end, char **error)
{
	(void)end;
	(void)error;
	if (fake.result == 0)
		take_out(removal->of, removal->id);
	free(removal);
	return fake.result;
}

static int
fake_changes(const struct backing *backing, uint64_t id, uint64_t offset, uint64_t length,
	     extent_visit visit, void *data)
{
	int r = 0;

	(void)backing;
	(void)id;
	fake.asked = offset;
	fake.asked_length = length;
	for (size_t i = 0; r == 0 && i < fake.run_count; i++) {
		uint64_t start = fake.runs[i][0], end = fake.runs[i][1];

		start = start < offset ? offset : start;
		end = end > offset + length ? offset + length : end;
		if (start < end)
			r = visit(data, start, end - start, false);
	}
	return fake.result < 0 ? fake.result : r;
}

static int
fake_start(struct backing_snapshot *snapshot, char **error)
{
	(void)snapshot;
	(void)error;
	return 0;
}

static int
fake_await(struct backing_snapshot *snapshot, int64_t end, char **error)
{
	(void)snapshot;
	(void)end;
	(void)error;
	return fake.result;
}

static void
fake_free(struct backing_snapshot *snapshot)
{
	fake.thrown += !snapshot->kept;
	free(snapshot);
}

static const struct backing_checkpoints checkpoints = {
	.list = fake_list,
	.edition = fake_edition,
	.prepare = fake_prepare,
	.keep = fake_keep,
	.remove = fake_remove,
	.await_removal = fake_await_removal,
	.changes = fake_changes,
};

static const struct backing_snapshots snapshots = {
	.start = fake_start,
	.await = fake_await,
	.free = fake_free,
};

static bool
fake_same(const struct backing *a, const struct backing *b)
{
	return a->state == b->state;
}

static const struct backing_kind kind = {
	.same = fake_same,
	.snapshots = &snapshots,
	.checkpoints = &checkpoints,
};

/* ---- the set */

void
begin_test(void)
{
	memset(&fake, 0, sizeof(fake));
	native_image = (struct image){.backing = {.kind = &kind,
						  .path = (char *)"disk",
						  .state = &fake.first,
						  .writable = true},
				      .ranges = &ranges,
				      .config = {.offset = START}};
	range_lock_init(&ranges);
	set = checkpoints_new(&native_image);
	ck_assert_ptr_nonnull(set);
}

void
end_test(void)
{
	checkpoints_free(set);
	range_lock_fini(&ranges);
}

struct checkpoint *
hold(size_t n)
{
	struct checkpoint_facts facts;
	struct checkpoint *checkpoint;

	ck_assert(checkpoints_at(set, n, &facts));
	checkpoint = checkpoint_hold(set, facts.id);
	ck_assert_ptr_nonnull(checkpoint);
	return checkpoint;
}
