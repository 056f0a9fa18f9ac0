/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_keeper.h"

#include "engine/changes/boot.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int
keeper_write(int fd, const void *bytes, size_t size, uint64_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n =
			pwrite(fd, (const char *)bytes + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

/* ---- the beginning of changes */

/* marking held. */
static void
layer_set_stale(struct layers *layers, struct layer_page *page)
{
	if (page->stale)
		return;
	page->stale = true;
	page->next_stale = layers->stale;
	layers->stale = page;
}

static int
keeper_write_header(int fd, const struct layer_header *header)
{
	uint8_t bytes[LAYER_HEADER_SIZE];

	layer_header_encode(header, bytes);
	return keeper_write(fd, bytes, sizeof(bytes), header->sequence % 2 * LAYER_HEADER_SIZE);
}

static int
keeper_sync(void *data)
{
	return fdatasync(*(int *)data) < 0 ? -errno : 0;
}

/* A sync has failed, so the newest header may be lost, too. This one takes its place: the older one
 * is on stable storage. */
static void
keeper_fail(struct layers *layers, int fd)
{
	struct layer_header failed = layers->header;
	int r;

	if (layers->told_failure)
		return;
	memset(failed.boot, 0, sizeof(failed.boot));
	memcpy(failed.boot, LAYER_FAILED, sizeof(LAYER_FAILED));
	failed.sequence += 2;
	r = keeper_write_header(fd, &failed);
	layers->told_failure = r == 0;
	if (r == 0)
		layers->header = failed;
	/* The next commit fails, too, and tries this again. */
	else
		log_error("the header of a layer can't be written: %s; if the server is killed "
			  "now, the next one may read what was lost as zeroes",
			  strerror(-r));
}

/* Writes a header in the place of the older one. What was written before is durable first, so one
 * of both headers always is. The newer one is written again, with the same bytes: the write-back of
 * an earlier process may have failed, and the page cache still has what was lost. */
static int
layer_replace_header(struct layers *layers, int fd, const struct layer_header *next,
		     int (*sync)(void *data), void *data)
{
	struct layer_header header = *next;
	int r = keeper_write_header(fd, &layers->header), failed = 0;

	if (r == 0)
		r = failed = sync(data);
	if (failed < 0)
		keeper_fail(layers, fd);
	header.sequence = layers->header.sequence + 1;
	if (r == 0)
		r = keeper_write_header(fd, &header);
	/* After a failure, the next one has the same place. */
	if (r == 0)
		layers->header = header;
	return r;
}

/* Encodes a block of a map, with what the topmost layer has of a page; NULL: nothing. */
static void
keeper_encode(const struct layers *layers, const struct layer_page *page, uint64_t number,
	      uint64_t generation, uint8_t bytes[LAYER_BLOCK_SIZE])
{
	struct layer_block block = {.number = number, .generation = generation};

	if (page)
		memcpy(block.words, page->bits, sizeof(block.words));
	layer_block_encode(&block, &layers->header.id, bytes);
}

/* Makes the recent map equal to the stable one, whatever another boot has left there. */
static int
keeper_renew_recent(struct layers *layers, int fd)
{
	uint8_t bytes[LAYER_BLOCK_SIZE];
	off_t data = 0;
	int r = 0;

	for (uint64_t number = 0; number < layers->map.count && r == 0; number++) {
		struct layer_page *page = atomic_load(&layers->map.pages[number]);
		const off_t at = (off_t)(layers->header.recent_at + number * LAYER_BLOCK_SIZE);

		if (data < at)
			data = lseek(fd, at, SEEK_DATA);
		if (data < 0)
			data = errno == ENXIO ? INT64_MAX : at;
		if (!page && data >= at + (off_t)LAYER_BLOCK_SIZE)
			continue;
		keeper_encode(layers, page, number, 0, bytes);
		r = keeper_write(fd, bytes, sizeof(bytes), (uint64_t)at);
	}
	return r;
}

/* Lets the next commit write pages: all, or only those whose blocks are damaged. */
static void
keeper_begin_stale(struct layers *layers, bool all)
{
	pthread_mutex_lock(&layers->marking);
	for (uint64_t i = 0; i < layers->map.count; i++) {
		struct layer_page *page = atomic_load(&layers->map.pages[i]);

		if (page && (all || page->damaged))
			layer_set_stale(layers, page);
	}
	if (layers->stale)
		atomic_fetch_add(&layers->marks, 1);
	pthread_mutex_unlock(&layers->marking);
}

/* Returns whether the stable map of the topmost layer has granules. */
static bool
keeper_has_granules(const struct layers *layers)
{
	for (uint64_t i = 0; i < layers->map.count; i++) {
		const struct layer_page *page = atomic_load(&layers->map.pages[i]);

		for (unsigned int word = 0; page && word < LAYER_BLOCK_WORDS; word++) {
			if (page->bits[word])
				return true;
		}
	}
	return false;
}

int
layer_draw_opening(uint64_t *opening)
{
	if (getrandom(opening, sizeof(*opening), 0) != sizeof(*opening))
		return -EIO;
	*opening = *opening >> 1 | 1;
	return 0;
}

int
layer_keeper_begin(struct layers *layers, int fd, bool writable)
{
	const struct layer_header *header = &layers->header;
	struct layer_header next;
	char boot[LAYER_BOOT];
	int r;

	boot_id(boot, sizeof(boot));
	if (!boot[0])
		return -ENODATA;
	layers->held = keeper_has_granules(layers);
	r = writable ? layer_draw_opening(&layers->opening) : 0;
	if (r < 0)
		return r;
	if (strcmp(boot, header->boot) == 0) {
		r = layers_load_recent(layers, fd);
		/* Which of them the stable map lacks is not known. */
		if (writable)
			keeper_begin_stale(layers, true);
		return r;
	}
	if (!writable)
		return 0;
	/* After a failed sync, blocks of the stable map may be in the page cache only. */
	keeper_begin_stale(layers, strcmp(header->boot, LAYER_FAILED) == 0);
	r = keeper_renew_recent(layers, fd);
	next = *header;
	memcpy(next.boot, boot, sizeof(boot));
	return r == 0 ? layer_replace_header(layers, fd, &next, keeper_sync, &fd) : r;
}

int
layer_keeper_end(struct layers *layers, int fd)
{
	struct layer_header next = layers->header;

	memset(next.boot, 0, sizeof(next.boot));
	return layer_replace_header(layers, fd, &next, keeper_sync, &fd);
}

/* committing held. */
static int
keeper_put_opening(struct layers *layers, int fd, int (*sync)(void *data), void *data)
{
	struct layer_header next = layers->header;
	int r;

	next.opening = layers->opening;
	r = layer_replace_header(layers, fd, &next, sync, data);
	if (r < 0 || !layers->held)
		return r;
	/* A power cut must not lose it and keep what is written in place. */
	r = sync(data);
	if (r < 0)
		keeper_fail(layers, fd);
	return r;
}

int
layer_keeper_enter(struct layers *layers, int fd, int (*sync)(void *data), void *data)
{
	int r = 0;

	pthread_mutex_lock(&layers->committing);
	if (!layer_keeper_has_entered(layers)) {
		r = keeper_put_opening(layers, fd, sync, data);
		atomic_store_explicit(&layers->entered, r == 0, memory_order_release);
	}
	pthread_mutex_unlock(&layers->committing);
	return r;
}

/* ---- marks */

/* marking held. Sets or clears the bits of a span that the topmost layer does not own yet, and adds
 * their pages to a list. Returns 0 or -ENOMEM. */
static int
keeper_set_bits(struct layers *layers, const struct layer_span *span, bool set,
		struct layer_page **list)
{
	for (uint64_t granule = span->first; granule < span->end; granule++) {
		const unsigned int i = (unsigned int)(granule % LAYER_BLOCK_GRANULES);
		const uint64_t bit = UINT64_C(1) << i % 64;
		struct layer_page *page;

		if (layer_map_owner(&layers->map, granule) == layers->top)
			continue;
		page = layer_map_page(&layers->map, granule);
		if (!page)
			return -ENOMEM;
		if (set)
			page->bits[i / 64] |= bit;
		else
			page->bits[i / 64] &= ~bit;
		if (!page->listed) {
			page->listed = true;
			page->next = *list;
			*list = page;
		}
	}
	return 0;
}

/* Takes space for a block of the stable map. A file system that can't do so may fail a later
 * flush. */
static int
keeper_reserve(const struct layers *layers, int fd, struct layer_page *page)
{
	for (unsigned int slot = 0; slot < 2; slot++) {
		const off_t at = (off_t)layer_block_at(&layers->header, page->number, slot);
		int r;

		do
			r = fallocate(fd, FALLOC_FL_KEEP_SIZE, at, LAYER_BLOCK_SIZE);
		while (r < 0 && errno == EINTR);
		if (r < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
	}
	page->reserved = true;
	return 0;
}

/* marking held. */
static int
keeper_put_recent(const struct layers *layers, int fd, struct layer_page *list)
{
	uint8_t bytes[LAYER_BLOCK_SIZE];
	int r = 0;

	for (; list && r == 0; list = list->next) {
		if (!list->reserved)
			r = keeper_reserve(layers, fd, list);
		if (r < 0)
			break;
		keeper_encode(layers, list, list->number, 0, bytes);
		r = keeper_write(fd, bytes, sizeof(bytes),
				 layers->header.recent_at + list->number * LAYER_BLOCK_SIZE);
	}
	return r;
}

int
layer_keeper_mark(struct layers *layers, int fd, const struct layer_span *spans, size_t count)
{
	struct layer_page *list = NULL;
	int r = 0;

	pthread_mutex_lock(&layers->marking);
	for (size_t i = 0; i < count && r == 0; i++)
		r = keeper_set_bits(layers, &spans[i], true, &list);
	if (r == 0 && !layers->temporary)
		r = keeper_put_recent(layers, fd, list);
	/* The recent map may have some of them now: it is written again with the next mark there,
	 * and until then they are as after a kill, when a failed change may have been made. */
	for (size_t i = 0; i < count && r < 0; i++)
		keeper_set_bits(layers, &spans[i], false, &list);
	for (; list; list = list->next) {
		list->listed = false;
		if (r == 0 && !layers->temporary)
			layer_set_stale(layers, list);
	}
	/* A change that finds a granule here needs no mark, but its flush needs this commit. */
	if (r == 0 && !layers->temporary)
		atomic_fetch_add(&layers->marks, 1);
	for (size_t i = 0; i < count && r == 0; i++) {
		for (uint64_t granule = spans[i].first; granule < spans[i].end; granule++)
			layer_map_set(&layers->map, granule, layers->top);
	}
	pthread_mutex_unlock(&layers->marking);
	return r;
}

/* ---- commits */

/* What the stable map lacks at one moment. */
struct keeper_batch {
	struct layer_page **pages;
	uint8_t (*blocks)[LAYER_BLOCK_SIZE];
	size_t count;
	uint64_t marks;
};

static int
keeper_take_batch(struct layers *layers, struct keeper_batch *batch)
{
	struct layer_page *page;
	size_t count = 0;

	pthread_mutex_lock(&layers->marking);
	batch->marks = atomic_load(&layers->marks);
	for (page = layers->stale; page; page = page->next_stale)
		count++;
	if (count > 0) {
		batch->pages = malloc(count * sizeof(batch->pages[0]));
		batch->blocks = malloc(count * sizeof(batch->blocks[0]));
	}
	if (count == 0 || (batch->pages && batch->blocks)) {
		for (page = layers->stale; page; page = page->next_stale) {
			page->stale = false;
			keeper_encode(layers, page, page->number, page->generation + 1,
				      batch->blocks[batch->count]);
			batch->pages[batch->count++] = page;
		}
		layers->stale = NULL;
	}
	pthread_mutex_unlock(&layers->marking);
	return batch->count == count ? 0 : -ENOMEM;
}

/* Writes the next generation of each block. What .generation says stays what is on stable storage.
 */
static int
keeper_put_stable(const struct layers *layers, int fd, const struct keeper_batch *batch)
{
	int r = 0;

	for (size_t i = 0; i < batch->count && r == 0; i++)
		r = keeper_write(fd, batch->blocks[i], LAYER_BLOCK_SIZE,
				 layer_block_at(&layers->header, batch->pages[i]->number,
						batch->pages[i]->generation + 1));
	return r;
}

int
layer_keeper_commit(struct layers *layers, int fd, uint64_t ticket, int (*sync)(void *data),
		    void *data)
{
	struct keeper_batch batch = {.count = 0};
	uint64_t number;
	int r, failed = 0;

	pthread_mutex_lock(&layers->committing);
	if (layers->good > ticket) {
		pthread_mutex_unlock(&layers->committing);
		return 0;
	}
	number = atomic_fetch_add(&layers->commits, 1) + 1;
	r = keeper_take_batch(layers, &batch);
	if (r == 0)
		r = failed = sync(data);
	if (r == 0)
		r = keeper_put_stable(layers, fd, &batch);
	if (r == 0 && batch.count > 0)
		r = failed = sync(data);
	if (failed < 0)
		keeper_fail(layers, fd);
	pthread_mutex_lock(&layers->marking);
	for (size_t i = 0; i < batch.count; i++) {
		if (r < 0)
			layer_set_stale(layers, batch.pages[i]);
		else
			batch.pages[i]->generation++;
	}
	pthread_mutex_unlock(&layers->marking);
	if (r == 0) {
		layers->good = number;
		atomic_store(&layers->durable, batch.marks);
	}
	pthread_mutex_unlock(&layers->committing);
	free(batch.pages);
	free(batch.blocks);
	return r;
}
