/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/disk.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <stdlib.h>
#include <string.h>

#define NAMES   64
#define CHANGES 256

/* The unstable sectors of a file at the beginning of a sync. */
struct noted {
	size_t sector;
	unsigned int version;
	uint8_t bytes[SECTOR_SIZE];
};

struct disk_sync {
	size_t count, size;
	struct noted sectors[];
};

struct name {
	char path[64];
	struct file *file; /* NULL: a free place */
};

/* What has changed since the last sync of the directory: a name leads to a file, or to none. */
struct change {
	char path[64];
	struct file *file;
};

static struct name names[NAMES], stable_names[NAMES];
static struct change changes[CHANGES];
static unsigned int change_count, last_number, boots;
static int64_t booted_at;
static struct file *files;

/* ---- files */

struct file *
disk_make(mode_t mode)
{
	struct file *file = calloc(1, sizeof(*file));

	file->number = ++last_number;
	file->mode = mode;
	file->users = 1;
	file->modified = scheduler_now();
	file->next = files;
	files = file;
	return file;
}

static void
file_free(struct file *file)
{
	struct file **at = &files;

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	free(file->bytes);
	free(file->stable);
	free(file->between);
	free(file->sectors);
	free(file->allocated);
	free(file);
}

static bool
file_is_stable_name(const struct file *file)
{
	for (unsigned int i = 0; i < NAMES; i++) {
		if (stable_names[i].file == file)
			return true;
	}
	for (unsigned int i = 0; i < change_count; i++) {
		if (changes[i].file == file)
			return true;
	}
	return false;
}

static void
file_drop_unused(struct file *file)
{
	if (!file->users && !file->names && !file_is_stable_name(file))
		file_free(file);
}

void
disk_put(struct file *file)
{
	file->users--;
	file_drop_unused(file);
}

static void
file_make_room(struct file *file, size_t size)
{
	const size_t room = (size + 65535) / 65536 * 65536, more = room - file->room;

	if (room <= file->room)
		return;
	file->bytes = realloc(file->bytes, room);
	file->stable = realloc(file->stable, room);
	file->between = realloc(file->between, room);
	file->sectors = realloc(file->sectors, room / SECTOR_SIZE * sizeof(*file->sectors));
	file->allocated = realloc(file->allocated, room / FILE_BLOCK);
	memset(file->bytes + file->room, 0, more);
	memset(file->stable + file->room, 0, more);
	memset(file->between + file->room, 0, more);
	memset(file->sectors + file->room / SECTOR_SIZE, 0,
	       more / SECTOR_SIZE * sizeof(*file->sectors));
	memset(file->allocated + file->room / FILE_BLOCK, 0, more / FILE_BLOCK);
	file->room = room;
}

static bool
sector_is_stable(const struct sector *sector)
{
	return sector->version == sector->stable_version;
}

/* Before the sector changes. */
static void
sector_note_change(struct file *file, uint64_t at)
{
	struct sector *sector = &file->sectors[at];
	const uint8_t *bytes = file->bytes + at * SECTOR_SIZE;
	const bool stable = sector_is_stable(sector);

	if (stable)
		memcpy(file->stable + at * SECTOR_SIZE, bytes, SECTOR_SIZE);
	if (stable || chance_once_in(2))
		memcpy(file->between + at * SECTOR_SIZE, bytes, SECTOR_SIZE);
	sector->version++;
	sector->lost = false;
}

void
disk_write(struct file *file, const void *bytes, size_t length, uint64_t offset)
{
	const uint64_t end = offset + length;

	if (!length)
		return;
	file_make_room(file, end);
	for (uint64_t sector = offset / SECTOR_SIZE; sector * SECTOR_SIZE < end; sector++)
		sector_note_change(file, sector);
	if (bytes)
		memcpy(file->bytes + offset, bytes, length);
	else
		memset(file->bytes + offset, 0, length);
	for (uint64_t at = offset / FILE_BLOCK; at * FILE_BLOCK < end; at++) {
		if (bytes)
			file->allocated[at] = true;
		else if (at * FILE_BLOCK >= offset && (at + 1) * FILE_BLOCK <= end)
			file->allocated[at] = false;
	}
	if (end > file->size)
		file->size = end;
	file->modified = scheduler_now();
}

void
disk_resize(struct file *file, size_t size)
{
	const size_t before = file->size;

	if (size < before) {
		disk_write(file, NULL, before - size, size);
		for (size_t at = (size + FILE_BLOCK - 1) / FILE_BLOCK; at * FILE_BLOCK < before;
		     at++)
			file->allocated[at] = false;
	}
	file_make_room(file, size);
	file->size = size;
	file->modified = scheduler_now();
}

/* ---- what is sure */

struct disk_sync *
disk_sync_begin(struct file *file)
{
	const size_t sectors = file->room / SECTOR_SIZE;
	struct disk_sync *sync;
	size_t count = 0;

	for (size_t i = 0; i < sectors; i++)
		count += !sector_is_stable(&file->sectors[i]);
	sync = malloc(sizeof(*sync) + count * sizeof(sync->sectors[0]));
	*sync = (struct disk_sync){.size = file->size};
	file->syncs++;
	for (size_t i = 0; i < sectors; i++) {
		struct noted *noted = &sync->sectors[sync->count];

		if (sector_is_stable(&file->sectors[i]) || file->sectors[i].lost)
			continue;
		noted->sector = i;
		noted->version = file->sectors[i].version;
		memcpy(noted->bytes, file->bytes + i * SECTOR_SIZE, SECTOR_SIZE);
		sync->count++;
	}
	return sync;
}

void
disk_sync_end(struct file *file, struct disk_sync *sync, bool well)
{
	file->syncs--;
	for (size_t i = 0; well && i < sync->count; i++) {
		const struct noted *noted = &sync->sectors[i];
		struct sector *sector = &file->sectors[noted->sector];

		if (noted->version <= sector->stable_version || sector->lost)
			continue;
		sector->stable_version = noted->version;
		memcpy(file->stable + noted->sector * SECTOR_SIZE, noted->bytes, SECTOR_SIZE);
		/* What was in between may have been older. */
		memcpy(file->between + noted->sector * SECTOR_SIZE, noted->bytes, SECTOR_SIZE);
	}
	if (well)
		file->stable_size = file->size;
	free(sync);
}

void
disk_settle_range(struct file *file, uint64_t offset, size_t length)
{
	for (uint64_t i = offset / SECTOR_SIZE; i * SECTOR_SIZE < offset + length; i++) {
		if (!file->sectors[i].lost)
			file->sectors[i].stable_version = file->sectors[i].version;
	}
	file->stable_size = file->size;
}

void
disk_lose(struct file *file, int error)
{
	unsigned int lost = 0;

	for (size_t i = 0; i < file->room / SECTOR_SIZE; i++) {
		struct sector *sector = &file->sectors[i];

		if (!sector_is_stable(sector) && !sector->lost && chance_once_in(2)) {
			sector->lost = true;
			lost++;
		}
	}
	if (!lost)
		return;
	trace("the write-back of %u sectors of file %u fails", lost, file->number);
	file->writeback_errors++;
	file->last_error = error;
}

/* ---- names */

static struct name *
name_find(struct name *list, const char *path)
{
	for (unsigned int i = 0; i < NAMES; i++) {
		if (list[i].file && strcmp(list[i].path, path) == 0)
			return &list[i];
	}
	return NULL;
}

static void
name_set(struct name *list, const char *path, struct file *file)
{
	struct name *name = name_find(list, path);

	for (unsigned int i = 0; !name && i < NAMES; i++) {
		if (!list[i].file)
			name = &list[i];
	}
	if (!name)
		trace_fail("the disk has more than %u names", NAMES);
	strncpy(name->path, path, sizeof(name->path) - 1);
	name->file = file;
}

static void
disk_change_name(const char *path, struct file *file)
{
	struct change *change = &changes[change_count];

	if (change_count == CHANGES) {
		disk_settle_names();
		change = &changes[0];
	}
	change_count++;
	strncpy(change->path, path, sizeof(change->path) - 1);
	change->file = file;
}

struct file *
disk_find(const char *path)
{
	struct name *name = name_find(names, path);

	return name ? name->file : NULL;
}

const char *
disk_path(const struct file *file)
{
	for (unsigned int i = 0; i < NAMES; i++) {
		if (names[i].file == file)
			return names[i].path;
	}
	return NULL;
}

void
disk_name(struct file *file, const char *path)
{
	if (disk_find(path))
		disk_unname(path);
	name_set(names, path, file);
	file->names++;
	disk_change_name(path, file);
}

void
disk_unname(const char *path)
{
	struct name *name = name_find(names, path);
	struct file *file = name->file;

	name->file = NULL;
	file->names--;
	disk_change_name(path, NULL);
	file_drop_unused(file);
}

static void
disk_drop_unused(void)
{
	struct file *next;

	for (struct file *file = files; file; file = next) {
		next = file->next;
		file_drop_unused(file);
	}
}

void
disk_settle_names(void)
{
	memcpy(stable_names, names, sizeof(names));
	change_count = 0;
	disk_drop_unused();
}

/* ---- a power failure */

/* What a crash has done to an unstable sector. */
enum fate {
	OLD,
	OLD_TOO,
	BETWEEN,
	NEW,
};

/* In which order the device wrote when its power failed. */
enum order {
	ANY,
	ANY_TOO,
	ASCENDING,
	DESCENDING,
	ORDERS,
};

static enum fate
sector_fate(enum order order, size_t at, size_t reached)
{
	const enum fate fate = (enum fate)chance_below(NEW + 1);

	if (order == ASCENDING)
		return at < reached ? NEW : OLD;
	if (order == DESCENDING)
		return at >= reached ? NEW : OLD;
	return fate;
}

/* Returns one of the unstable sectors, if there are any. */
static size_t
file_choose_unstable(const struct file *file)
{
	const size_t sectors = file->room / SECTOR_SIZE;
	size_t count = 0;

	for (size_t i = 0; i < sectors; i++)
		count += !sector_is_stable(&file->sectors[i]);
	count = chance_below(count);
	for (size_t i = 0; i < sectors; i++) {
		if (!sector_is_stable(&file->sectors[i]) && count-- == 0)
			return i;
	}
	return 0;
}

static void
file_crash(struct file *file)
{
	const enum order order = (enum order)chance_below(ORDERS);
	const size_t reached = file_choose_unstable(file);
	unsigned int kept = 0, gone = 0;

	for (size_t i = 0; i < file->room / SECTOR_SIZE; i++) {
		struct sector *sector = &file->sectors[i];
		const size_t at = i * SECTOR_SIZE;
		const enum fate fate = sector_fate(order, i, reached);

		if (sector_is_stable(sector))
			continue;
		if (sector->lost || fate <= OLD_TOO)
			memcpy(file->bytes + at, file->stable + at, SECTOR_SIZE);
		else if (fate == BETWEEN)
			memcpy(file->bytes + at, file->between + at, SECTOR_SIZE);
		kept += fate == NEW;
		gone += fate != NEW;
		*sector = (struct sector){0};
		file->allocated[at / FILE_BLOCK] = true;
	}
	if (file->size != file->stable_size && chance_once_in(2))
		file->size = file->stable_size;
	file_make_room(file, file->size);
	if (file->size < file->room)
		memset(file->bytes + file->size, 0, file->room - file->size);
	file->stable_size = file->size;
	file->writeback_errors = file->told_errors = file->syncs = 0;
	if (kept + gone)
		trace("file %u keeps %u unstable sectors and loses %u", file->number, kept, gone);
}

void
disk_crash(void)
{
	const unsigned int kept = (unsigned int)chance_below(change_count + 1);

	for (unsigned int i = 0; i < kept; i++) {
		if (changes[i].file || name_find(stable_names, changes[i].path))
			name_set(stable_names, changes[i].path, changes[i].file);
	}
	if (change_count)
		trace("%u of %u changes of names are kept", kept, change_count);
	change_count = 0;
	memcpy(names, stable_names, sizeof(names));
	for (struct file *file = files; file; file = file->next) {
		file->names = 0;
		for (unsigned int i = 0; i < NAMES; i++)
			file->names += names[i].file == file;
	}
	disk_drop_unused();
	for (struct file *file = files; file; file = file->next)
		file_crash(file);
	boots++;
	booted_at = scheduler_now();
}

unsigned int
disk_boots(void)
{
	return boots;
}

int64_t
disk_booted_at(void)
{
	return booted_at;
}

void
disk_begin(void)
{
	memset(names, 0, sizeof(names));
	memset(stable_names, 0, sizeof(stable_names));
	change_count = last_number = boots = 0;
	booted_at = 0;
}

void
disk_end(void)
{
	while (files)
		file_free(files);
}
