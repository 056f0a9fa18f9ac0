/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_report.h"

#include "engine/backing/file/lock.h"
#include "engine/changes/boot.h"
#include "engine/layer/layer_create.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A sentence of which this is the only owner. */
static void
report_take(struct layer_report *report, enum layer_trouble trouble, char *text)
{
	struct layer_finding *more =
		text ? realloc(report->findings, (report->finding_count + 1) * sizeof(*more))
		     : NULL;

	if (!more) {
		free(text);
		return;
	}
	report->findings = more;
	report->findings[report->finding_count++] = (struct layer_finding){trouble, text};
}

static void __attribute__((format(printf, 3, 4)))
report_add(struct layer_report *report, enum layer_trouble trouble, const char *format, ...)
{
	char *text;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	report_take(report, trouble, text);
}

/* ---- headers */

/* Returns whether a copy of the header is neither whole nor still unwritten. */
static bool
report_copy_is_bad(const uint8_t bytes[LAYER_HEADER_SIZE])
{
	static const uint8_t none[LAYER_HEADER_SIZE];
	struct layer_header header;

	return memcmp(bytes, none, sizeof(none)) != 0 && layer_header_decode(&header, bytes) < 0;
}

/* Looks at both copies, of which at least one is whole. */
static void
report_headers(struct layer_report *report, const struct layer_part *part, int fd)
{
	uint8_t bytes[2][LAYER_HEADER_SIZE];

	if (layer_read_all(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return;
	if (report_copy_is_bad(bytes[0]) || report_copy_is_bad(bytes[1]))
		report_add(report, LAYER_UNTIDY,
			   "%s: one copy of its header is damaged, as a power cut may leave it; "
			   "the other one counts",
			   part->name);
}

static enum layer_ending
report_ending(const struct layer_header *header)
{
	char boot[LAYER_BOOT];

	boot_id(boot, sizeof(boot));
	if (!header->boot[0])
		return LAYER_ENDED;
	if (strcmp(header->boot, LAYER_FAILED) == 0)
		return LAYER_SYNC_FAILED;
	return strcmp(header->boot, boot) == 0 ? LAYER_OPEN : LAYER_CUT;
}

/* ---- maps */

/* The maps of a layer, read block by block: each of them at the same number. */
struct map_look {
	const struct layer_part *part;
	int fd;
	uint64_t at[3]; /* where stable, other and recent map begin; 0: it does not count */
	uint64_t blocks;
	struct layer_block stable[2], recent;
	int stable_result[2], recent_result;    /* 0, or -errno of this block */
	uint64_t torn, damaged, unlike, beyond; /* blocks */
	uint64_t held, unkept;                  /* bytes of the disk */
};

/* Returns the first block, from `number` on, that one of the maps may have something in. */
static uint64_t
map_look_next(const struct map_look *look, uint64_t number)
{
	uint64_t next = look->blocks;

	for (unsigned int i = 0; i < 3; i++) {
		const off_t from = (off_t)(look->at[i] + number * LAYER_BLOCK_SIZE);
		const off_t data = look->at[i] ? lseek(look->fd, from, SEEK_DATA) : -1;
		uint64_t first = number;

		if (!look->at[i] || (data < 0 && errno == ENXIO))
			continue;
		if (data > from)
			first += (uint64_t)(data - from) / LAYER_BLOCK_SIZE;
		next = first < next ? first : next;
	}
	return next;
}

/* Reads a block. A server may be writing it: then another look finds it whole. */
static int
map_look_read(const struct map_look *look, unsigned int map, uint64_t number,
	      struct layer_block *block)
{
	const uint64_t at = look->at[map] + number * LAYER_BLOCK_SIZE;
	int r = -EBADMSG;

	*block = (struct layer_block){.number = number};
	if (!look->at[map])
		return 0;
	for (unsigned int i = 0; i < 3 && r == -EBADMSG; i++) {
		uint8_t bytes[LAYER_BLOCK_SIZE];
		ssize_t n = layer_read_all(look->fd, bytes, sizeof(bytes), at);

		r = n < 0 ? (int)n
		    : n < (ssize_t)sizeof(bytes)
			    ? -EBADMSG
			    : layer_block_decode(block, &look->part->header.id, number, bytes);
		if (r == 0 && map < 2 && block->generation && block->generation % 2 != map)
			r = -EBADMSG;
	}
	if (r < 0)
		*block = (struct layer_block){.number = number};
	return r;
}

/* Returns whether a has all granules of b. */
static bool
map_look_contains(const struct layer_block *a, const struct layer_block *b)
{
	for (unsigned int i = 0; i < LAYER_BLOCK_WORDS; i++) {
		if (b->words[i] & ~a->words[i])
			return false;
	}
	return true;
}

static void
map_look_count(struct map_look *look, uint64_t number)
{
	const uint64_t size = look->part->header.size, granule = look->part->header.granule;
	bool beyond = false;

	for (unsigned int i = 0; i < LAYER_BLOCK_GRANULES; i++) {
		const uint64_t bit = UINT64_C(1) << i % 64,
			       at = (number * LAYER_BLOCK_GRANULES + i) * granule;
		const bool stable =
			(look->stable[0].words[i / 64] | look->stable[1].words[i / 64]) & bit;
		const bool recent = look->recent.words[i / 64] & bit;

		if (!stable && !recent)
			continue;
		if (at >= size) {
			beyond = true;
			continue;
		}
		look->held += size - at < granule ? size - at : granule;
		if (!stable)
			look->unkept += size - at < granule ? size - at : granule;
	}
	look->beyond += beyond;
}

/* Judges the blocks of one number. */
static void
map_look_judge(struct map_look *look)
{
	const bool may_tear =
		look->part->header.state != LAYER_SEALED && look->part->header.boot[0];
	const unsigned int bad = (look->stable_result[0] < 0) + (look->stable_result[1] < 0);
	const unsigned int newer = look->stable[1].generation > look->stable[0].generation;

	if (bad == 2 || look->recent_result < 0 || (bad == 1 && !may_tear))
		look->damaged++;
	else if (bad == 1)
		look->torn++;
	else if (!map_look_contains(&look->stable[newer], &look->stable[!newer]))
		look->unlike++;
}

/* Returns 0 or -errno: a file that can't be read. */
static int
map_look_at_maps(struct map_look *look)
{
	int r = 0;

	for (uint64_t number = map_look_next(look, 0); number < look->blocks;
	     number = map_look_next(look, number + 1)) {
		for (unsigned int map = 0; map < 2; map++)
			look->stable_result[map] =
				map_look_read(look, map, number, &look->stable[map]);
		look->recent_result = map_look_read(look, 2, number, &look->recent);
		map_look_judge(look);
		map_look_count(look, number);
		for (unsigned int map = 0; map < 2; map++) {
			if (look->stable_result[map] < 0 && look->stable_result[map] != -EBADMSG)
				r = look->stable_result[map];
		}
		if (look->recent_result < 0 && look->recent_result != -EBADMSG)
			r = look->recent_result;
		if (r < 0)
			break;
	}
	return r;
}

static void
report_maps(struct layer_report *report, struct layer_part *part, int fd)
{
	const struct layer_header *header = &part->header;
	struct map_look look = {
		.part = part,
		.fd = fd,
		.at = {LAYER_STABLE_AT, header->other_at},
		.blocks = layer_blocks_for(header->size, header->granule),
	};
	int r;

	if (part->ending == LAYER_OPEN && header->state != LAYER_SEALED)
		look.at[2] = header->recent_at;
	r = map_look_at_maps(&look);
	if (r < 0)
		report_add(report, LAYER_UNKNOWN, "%s: its map can't be read: %s", part->name,
			   strerror(-r));
	if (look.damaged)
		report_add(report, LAYER_DAMAGED,
			   "%s: damaged blocks in its map: %" PRIu64
			   "; which granules it holds there "
			   "is not known",
			   part->name, look.damaged);
	if (look.unlike)
		report_add(
			report, LAYER_DAMAGED,
			"%s: blocks in its map whose newer copy lacks granules of the older one: "
			"%" PRIu64,
			part->name, look.unlike);
	if (look.beyond)
		report_add(
			report, LAYER_DAMAGED,
			"%s: blocks in its map with granules beyond the end of the disk: %" PRIu64,
			part->name, look.beyond);
	if (look.torn)
		report_add(report, LAYER_UNTIDY,
			   "%s: damaged blocks in its map, as a power cut may leave them: %" PRIu64
			   "; their other copies count",
			   part->name, look.torn);
	part->held = look.held;
	part->recent = look.unkept;
}

/* ---- one file */

static void
report_state(struct layer_report *report, const struct layer_part *part)
{
	const struct layer_header *header = &part->header;

	if (header->state == LAYER_COMMITTING)
		report_add(report, LAYER_UNTIDY,
			   "%s: a commit into its base was interrupted; `nbdloop layer commit %s` "
			   "carries it on",
			   part->name, part->name);
	if (header->state == LAYER_SEALED || part->busy)
		return;
	if (part->ending == LAYER_OPEN && part->recent)
		report_add(report, LAYER_UNTIDY,
			   "%s: its server was killed, and the latest writes count only until this "
			   "machine reboots or fails",
			   part->name);
	if (part->ending == LAYER_SYNC_FAILED)
		report_add(report, LAYER_UNTIDY,
			   "%s: a sync has failed, so writes after the last good flush may be lost",
			   part->name);
}

static void
report_layer(struct layer_report *report, struct layer_part *part, int fd, uint64_t length)
{
	const struct layer_header *header = &part->header;
	const uint64_t wanted = header->data_at + header->size;

	part->size = header->size;
	part->ending = report_ending(header);
	if (length < wanted)
		report_add(report, LAYER_DAMAGED,
			   "%s: it was cut short: it has %" PRIu64 " bytes, and needs %" PRIu64,
			   part->name, length, wanted);
	report_headers(report, part, fd);
	report_maps(report, part, fd);
	report_state(report, part);
}

/* Fills in what an open file is. `below` is raw bytes, or a layer whose header is read already. */
static int
report_file(struct layer_report *report, struct layer_part *part, int fd)
{
	char link[64], path[4096];
	struct stat st;
	int64_t length;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	length = layer_base_size(fd, &st);
	if (length < 0)
		return (int)length;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	part->path = strdup(path);
	part->block_device = S_ISBLK(st.st_mode);
	part->size = (uint64_t)length;
	part->allocated = (uint64_t)st.st_blocks * 512;
	if (part->layer)
		report_layer(report, part, fd, (uint64_t)length);
	return part->path ? 0 : -ENOMEM;
}

/* ---- the chain */

static enum layer_trouble
report_trouble_of(int r)
{
	return r == -ESTALE || r == -EBUSY || r == -EBADMSG || r == -ENOTSUP || r == -ELOOP
		       ? LAYER_DAMAGED
		       : LAYER_UNKNOWN;
}

/* Whether the file is above itself in the chain. */
static bool
report_is_circle(const struct layer_report *report, const char *path)
{
	for (unsigned int i = 0; i + 1 < report->count; i++) {
		if (report->parts[i].path && strcmp(report->parts[i].path, path) == 0)
			return true;
	}
	return false;
}

/* Adds the base of the last part, which is open as *fd, and makes *fd that of the base. Returns 0,
 * or -errno with *error: it can't be looked at, or is not the base that the layer was made on. */
static int
report_base(struct layer_report *report, const struct layer_wish *wish, int *fd, char **error)
{
	const struct layer_part *above = &report->parts[report->count - 1];
	struct layer_part *part = &report->parts[report->count++];
	int CLEANUP_CLOSE base =
		layer_open_base(*fd, above->name, &above->header, wish->base_path, error);
	struct stat st;
	int r;

	part->name = strdup(above->header.path);
	part->layer = above->header.base == LAYER_BASE_LAYER;
	if (!part->name)
		return -ENOMEM;
	if (base < 0)
		return base;
	fcntl(base, F_SETFL, 0);
	if (part->layer)
		r = layer_header_read(base, part->name, &part->header, error);
	else
		r = 0;
	if (r == 0)
		r = report_file(report, part, base);
	if (r == 0 && fstat(base, &st) < 0)
		r = -errno;
	if (r < 0)
		return *error ? r
			      : error_set(error, r, "%s: its base %s: %s", above->name, part->name,
					  strerror(-r));
	if (report_is_circle(report, part->path))
		return error_set(error, -ELOOP, "%s: its base %s is above it in the chain",
				 above->name, part->name);
	r = layer_check_base(wish, above->name, &above->header, part->layer ? &part->header : NULL,
			     &st, layer_base_size(base, &st), error);
	part->matches = r == 0;
	close(*fd);
	*fd = steal_fd(&base);
	return r;
}

/* Adds the bases, one after the other, up to the first with which something is wrong. */
static void
report_chain(struct layer_report *report, const struct layer_wish *wish, int *fd)
{
	const struct layer_part *last = &report->parts[0];

	while (last->layer && last->header.base != LAYER_BASE_NONE) {
		char *CLEANUP_FREE error = NULL;
		int r;

		if (report->count > LAYER_DEPTH_MAX) {
			report_add(report, LAYER_DAMAGED, "%s: it stands on more than %d files",
				   wish->path, LAYER_DEPTH_MAX);
			return;
		}
		r = report_base(report, wish, fd, &error);
		if (r < 0) {
			report_take(report, report_trouble_of(r), steal_pointer(&error));
			return;
		}
		last = &report->parts[report->count - 1];
	}
}

/* Reads the header of the topmost layer, which is open as `fd`. `alone`: takes a lock first. A
 * sealed layer is not written to, so that its readers may have it, too. */
static int
report_open_top(const char *path, int fd, bool alone, struct layer_header *header, char **error)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	int r = layer_header_read(fd, path, header, error);

	if (r < 0 || !alone)
		return r;
	r = header->state == LAYER_SEALED
		    ? lock_take(fd, path, LOCK_AUTO, &whole, false, false, error)
		    : lock_take_alone(fd, path, false, error);
	return r < 0 ? r : layer_header_read(fd, path, header, error);
}

int
layer_report_new(const struct layer_wish *wish, bool alone, struct layer_report **result,
		 char **error)
{
	struct layer_report *report = calloc(1, sizeof(*report));
	struct layer_part *top = report ? &report->parts[0] : NULL;
	int CLEANUP_CLOSE fd = regular_file_open(wish->path, O_RDONLY);
	int r = 0;

	*error = NULL;
	if (!report)
		return -ENOMEM;
	report->count = 1;
	top->name = strdup(wish->path);
	top->layer = true;
	if (fd < 0)
		r = error_set(error, fd, "%s: %s", wish->path, regular_file_strerror(-fd));
	else if (!layer_is_named(wish->path))
		r = error_set(error, -EINVAL, "%s: the name of a layer ends in .layer", wish->path);
	else if (!top->name)
		r = -ENOMEM;
	else
		r = report_open_top(wish->path, fd, alone, &top->header, error);
	if (r == 0) {
		top->busy = !alone && top->header.state != LAYER_SEALED && !lock_is_free(fd);
		r = report_file(report, top, fd);
		if (r < 0)
			error_set(error, r, "%s: %s", wish->path, strerror(-r));
	}
	if (r < 0) {
		layer_report_free(report);
		return r;
	}
	report_chain(report, wish, &fd);
	*result = report;
	return 0;
}

void
layer_report_free(struct layer_report *report)
{
	if (!report)
		return;
	for (unsigned int i = 0; i < report->count; i++) {
		free(report->parts[i].name);
		free(report->parts[i].path);
	}
	for (size_t i = 0; i < report->finding_count; i++)
		free(report->findings[i].text);
	free(report->findings);
	free(report);
}

/* ---- repair */

int
layer_repair(const struct layer_wish *wish, char **error)
{
	/* Only the layer's own maps matter here. */
	const struct layer_wish own = {
		.path = wish->path,
		.base_path = wish->base_path,
		.force = true,
		.changed_base = true,
		.lock = LOCK_AUTO,
		.commit = true,
	};
	int CLEANUP_CLOSE fd = layer_open_alone(wish->path, error);
	struct layers *layers = NULL;
	int r;

	if (fd < 0)
		return fd;
	r = layers_open(fd, &own, &layers, error);
	if (r < 0)
		return r;
	if (layers->header.state != LAYER_SEALED)
		r = layer_settle(layers, fd);
	if (r == 0)
		r = layer_header_write(&layers->header, fd);
	layers_close(layers);
	return r < 0 ? error_set(error, r, "%s: %s", wish->path, strerror(-r)) : 0;
}
