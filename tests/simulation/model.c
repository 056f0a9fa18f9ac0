/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/model.h"

#include "tests/simulation/disk.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEVER     UINT64_MAX

#define READS_MAX 128

/* What a write did, or may have done, to one sector. Moments are numbers of events. */
struct version {
	uint64_t write;
	bool zero;     /* it reads as zeroes */
	bool optional; /* it may not have taken effect: a trim, or a failure */
	bool open;     /* there is no answer yet */
	bool durable;
	bool doubtful;       /* no flush makes it durable */
	uint64_t start, end; /* it takes effect between them; end NEVER: later */
	uint64_t seen;       /* when it was first known to have taken effect: an answer, a read */
	uint64_t last;       /* the start of the last operation that saw it, or its own */
	int64_t known_at; /* when the server knows that the client is gone; FOR_EVER: it is not */
};

struct sector_history {
	uint64_t change_start, change_end; /* of the last write that was answered */
	struct version *versions;
	unsigned int count, room;
	unsigned int next_look; /* at how many versions those that are past are forgotten */
};

static struct sector_history *histories;
static unsigned int sector_count;
static uint64_t moment, last_write, last_crash;
static uint64_t reads[READS_MAX]; /* moments of requests that are not answered */
static unsigned int read_count;
static int64_t still_until;                     /* the server does not run before */
static uint64_t checkpoints[MODEL_CHECKPOINTS]; /* when they were created; 0: they are not */

struct model_snapshot {
	uint64_t asked, made; /* moments; 0: not */
	uint64_t asked_again; /* for a newer one; 0: not */
	int64_t until;
	uint64_t after, before; /* its moment is between them */
	uint64_t *writes;       /* that were read, by sector; NEVER: none was */
};

static struct model_snapshot snapshots[MODEL_SNAPSHOTS];

/* Where the versions of the writes are that have no answer. */
struct open_write {
	uint64_t write;
	unsigned int first, count;
	enum model_kind kind;
	int64_t began_at;
	struct open_write *next;
};

static struct open_write *open_writes;

/* ---- bytes */

void
model_fill(uint64_t write, unsigned int sector, uint8_t *bytes)
{
	uint64_t word = write * UINT64_C(0x9e3779b97f4a7c15) + sector + 1;

	memcpy(bytes, &write, sizeof(write));
	for (unsigned int i = sizeof(write); i < SECTOR_SIZE; i += sizeof(word)) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		memcpy(bytes + i, &word, sizeof(word));
	}
}

/* Returns the number of the write, or 0 for zeroes. */
static uint64_t
model_recognize(unsigned int sector, const uint8_t *bytes, const char *who)
{
	static const uint8_t zeroes[SECTOR_SIZE];
	uint8_t expected[SECTOR_SIZE];
	uint64_t write;

	if (memcmp(bytes, zeroes, SECTOR_SIZE) == 0)
		return 0;
	memcpy(&write, bytes, sizeof(write));
	model_fill(write, sector, expected);
	for (unsigned int i = 0; i < SECTOR_SIZE; i++) {
		if (bytes[i] != expected[i])
			trace_fail("%s: byte %u of sector %u is not one of write %" PRIu64
				   " whose number it has",
				   who, i, sector, write);
	}
	return write;
}

/* ---- versions */

static struct version *
history_add(struct sector_history *history)
{
	if (history->count == history->room) {
		history->room = history->room ? 2 * history->room : 4;
		history->versions =
			realloc(history->versions, history->room * sizeof(*history->versions));
	}
	return &history->versions[history->count++];
}

/* One that both is over and cannot come back after a crash. */
static bool
version_is_past(const struct sector_history *history, const struct version *version,
		uint64_t oldest)
{
	for (unsigned int i = 0; i < history->count; i++) {
		const struct version *newer = &history->versions[i];

		if (newer->durable && newer->seen < oldest && version->end < newer->start)
			return true;
	}
	return false;
}

static void
history_forget(struct sector_history *history)
{
	uint64_t oldest = moment;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < read_count; i++)
		oldest = reads[i] < oldest ? reads[i] : oldest;
	for (unsigned int i = 0; i < history->count; i++) {
		if (!version_is_past(history, &history->versions[i], oldest))
			history->versions[kept++] = history->versions[i];
	}
	history->count = kept;
	history->next_look = 2 * kept;
}

void
model_begin(unsigned int sectors)
{
	sector_count = sectors;
	histories = calloc(sectors, sizeof(*histories));
	moment = last_write = last_crash = 0;
	read_count = 0;
	still_until = 0;
	memset(checkpoints, 0, sizeof(checkpoints));
	for (unsigned int i = 0; i < sectors; i++)
		*history_add(&histories[i]) =
			(struct version){.zero = true, .durable = true, .known_at = FOR_EVER};
}

void
model_end(void)
{
	for (unsigned int i = 0; i < sector_count; i++)
		free(histories[i].versions);
	free(histories);
	for (unsigned int i = 0; i < MODEL_SNAPSHOTS; i++)
		model_snapshot_removed(i);
	while (open_writes) {
		struct open_write *next = open_writes->next;

		free(open_writes);
		open_writes = next;
	}
}

/* ---- writes */

uint64_t
model_write(enum model_kind kind, unsigned int first, unsigned int count)
{
	struct open_write *write = malloc(sizeof(*write));

	*write = (struct open_write){
		.write = ++last_write,
		.first = first,
		.count = count,
		.kind = kind,
		.began_at = scheduler_now(),
		.next = open_writes,
	};
	open_writes = write;
	moment++;
	for (unsigned int i = first; i < first + count; i++) {
		struct sector_history *history = &histories[i];

		if (history->count >= 12 && history->count >= history->next_look)
			history_forget(history);
		*history_add(history) = (struct version){
			.write = last_write,
			.zero = kind != MODEL_DATA,
			.optional = kind == MODEL_TRIM,
			.open = true,
			.start = moment,
			.end = NEVER,
			.seen = NEVER,
			.last = moment,
			.known_at = FOR_EVER,
		};
	}
	return last_write;
}

static struct version *
version_find(unsigned int sector, uint64_t write)
{
	struct sector_history *history = &histories[sector];

	for (unsigned int i = history->count; i-- > 0;) {
		if (history->versions[i].write == write)
			return &history->versions[i];
	}
	return NULL;
}

/* A write was carried out that began when the server knew that others' clients are gone: those took
 * effect before it, or never will. */
static void
history_bound_abandoned(struct sector_history *history, const struct version *newer,
			int64_t newer_began)
{
	for (unsigned int i = 0; i < history->count; i++) {
		struct version *version = &history->versions[i];

		if (version->open && version->known_at < newer_began && version->end > newer->start)
			version->end = newer->start - 1;
	}
}

static struct open_write **
open_write_find(uint64_t write)
{
	struct open_write **at = &open_writes;

	while (*at && (*at)->write != write)
		at = &(*at)->next;
	return *at ? at : NULL;
}

void
model_write_answered(uint64_t number, enum model_outcome outcome)
{
	struct open_write **at = open_write_find(number), *write = at ? *at : NULL;

	moment++;
	if (!write)
		return;
	for (unsigned int i = write->first; i < write->first + write->count; i++) {
		struct version *version = version_find(i, number);

		if (!version)
			continue;
		version->open = false;
		version->end = moment;
		if (outcome != MODEL_FAILED && version->start > histories[i].change_start) {
			histories[i].change_start = version->start;
			histories[i].change_end = moment;
		}
		if (outcome == MODEL_FAILED)
			version->optional = true;
		if (!version->optional && version->seen > moment)
			version->seen = moment;
		if (!version->optional && outcome == MODEL_DURABLE)
			version->durable = true;
		if (!version->optional)
			history_bound_abandoned(&histories[i], version, write->began_at);
	}
	*at = write->next;
	free(write);
}

/* How long after the end of a connection the server may still begin its changes (ABSENCE_MAX of
 * server/connection/peer.c). */
#define ABSENCE (100 * MILLISECOND)

void
model_stand_still(int64_t until)
{
	still_until = until;
	for (struct open_write *write = open_writes; write; write = write->next) {
		for (unsigned int i = write->first; i < write->first + write->count; i++) {
			struct version *version = version_find(i, write->write);

			if (version && version->known_at < until + ABSENCE)
				version->known_at = until + ABSENCE;
		}
	}
}

void
model_write_abandoned(uint64_t number, int64_t known_at)
{
	struct open_write **at = open_write_find(number);

	if (!at)
		return;
	known_at = (known_at > still_until ? known_at : still_until) + ABSENCE;
	for (unsigned int i = (*at)->first; i < (*at)->first + (*at)->count; i++) {
		struct version *version = version_find(i, number);

		if (version)
			version->known_at = known_at;
	}
}

/* ---- reads and flushes */

uint64_t
model_request(void)
{
	if (read_count < READS_MAX)
		reads[read_count++] = moment + 1;
	return ++moment;
}

void
model_read_failed(uint64_t request)
{
	for (unsigned int i = 0; i < read_count; i++) {
		if (reads[i] == request) {
			reads[i] = reads[--read_count];
			return;
		}
	}
}

/* Returns why the version can't have been there in the interval, or NULL. */
static const char *
version_check_read(const struct sector_history *history, const struct version *version,
		   uint64_t start, uint64_t end, uint64_t *other)
{
	if (version->start > end)
		return "comes from the future";
	for (unsigned int i = 0; i < history->count; i++) {
		const struct version *newer = &history->versions[i];

		*other = newer->write;
		if (newer != version && version->end < newer->start && newer->seen < start)
			return "was overwritten before";
	}
	return NULL;
}

/* Whether all that saw one can be ordered before, or after, all that saw the other (P. B. Gibbons
 * and E. Korach, Testing Shared Memories). */
static bool
versions_agree(const struct version *a, const struct version *b)
{
	const bool a_forward = a->seen < a->last, b_forward = b->seen < b->last;

	if (a_forward && b_forward)
		return a->seen > b->last || b->seen > a->last;
	if (a_forward)
		return !(a->seen < b->last && b->seen < a->last);
	if (b_forward)
		return !(b->seen < a->last && a->seen < b->last);
	return true;
}

static void
sector_check_data(unsigned int sector, uint64_t write, uint64_t start, uint64_t end,
		  const char *who)
{
	struct sector_history *history = &histories[sector];
	struct version *version = version_find(sector, write);
	const char *why;
	uint64_t other = 0;

	if (!version)
		trace_fail("%s: sector %u has the bytes of write %" PRIu64
			   ", which is long past or of another place",
			   who, sector, write);
	why = version_check_read(history, version, start, end, &other);
	if (why)
		trace_fail("%s: sector %u has the bytes of write %" PRIu64
			   ", which %s (by write %" PRIu64 ")",
			   who, sector, write, why, other);
	if (version->seen > end)
		version->seen = end;
	if (version->last < start)
		version->last = start;
	for (unsigned int i = 0; i < history->count; i++) {
		const struct version *one = &history->versions[i];

		if (one != version && !one->zero && !versions_agree(version, one))
			trace_fail("%s: sector %u has the bytes of write %" PRIu64
				   ", which fits no order with write %" PRIu64,
				   who, sector, write, one->write);
	}
}

/* Of zeroes, it is not known who wrote them. */
static void
sector_check_zeroes(unsigned int sector, uint64_t start, uint64_t end, const char *who)
{
	const struct sector_history *history = &histories[sector];
	uint64_t other = 0;

	for (unsigned int i = 0; i < history->count; i++) {
		const struct version *version = &history->versions[i];

		if (version->zero && !version_check_read(history, version, start, end, &other))
			return;
	}
	trace_fail("%s: sector %u has zeroes, which were overwritten before, or nobody wrote", who,
		   sector);
}

static void
model_check(unsigned int first, unsigned int count, const uint8_t *bytes, uint64_t start,
	    const char *who)
{
	for (unsigned int i = 0; i < count; i++) {
		const uint64_t write =
			model_recognize(first + i, bytes + (size_t)i * SECTOR_SIZE, who);

		if (write)
			sector_check_data(first + i, write, start, moment, who);
		else
			sector_check_zeroes(first + i, start, moment, who);
	}
}

void
model_read_answered(uint64_t request, unsigned int first, unsigned int count, const uint8_t *bytes)
{
	moment++;
	model_read_failed(request);
	/* An answer from before the crash may arrive after it. */
	if (request > last_crash)
		model_check(first, count, bytes, request, "a read");
}

void
model_zeroes_answered(uint64_t request, unsigned int first, unsigned int count)
{
	moment++;
	for (unsigned int i = first; i < first + count && request > last_crash; i++)
		sector_check_zeroes(i, request, moment, "a list of holes");
}

void
model_flush_answered(uint64_t request)
{
	moment++;
	model_read_failed(request);
	for (unsigned int i = 0; i < sector_count; i++) {
		for (unsigned int j = 0; j < histories[i].count; j++) {
			struct version *version = &histories[i].versions[j];

			/* One that was only read may be lost: a flush is for what was answered. */
			if (version->end < request && !version->open && !version->optional &&
			    !version->doubtful)
				version->durable = true;
		}
	}
}

/* ---- checkpoints */

void
model_checkpoint_created(unsigned int checkpoint)
{
	checkpoints[checkpoint] = ++moment;
}

void
model_checkpoint_deleted(unsigned int checkpoint)
{
	checkpoints[checkpoint] = 0;
}

uint64_t
model_checkpoint(unsigned int checkpoint)
{
	return checkpoints[checkpoint];
}

void
model_clean_answered(uint64_t request, unsigned int checkpoint, uint64_t created,
		     unsigned int first, unsigned int count)
{
	if (!created || checkpoints[checkpoint] != created || request <= last_crash)
		return;
	for (unsigned int i = first; i < first + count && i < sector_count; i++) {
		if (histories[i].change_start > created && histories[i].change_end < request)
			trace_fail("checkpoint c%u says that sector %u has not changed, but it was "
				   "written since",
				   checkpoint, i);
	}
}

/* ---- snapshots */

void
model_snapshot_asked(unsigned int snapshot)
{
	/* As for a read, nothing is forgotten that it may show. */
	snapshots[snapshot].asked_again = model_request();
}

void
model_snapshot_removed(unsigned int number)
{
	struct model_snapshot *snapshot = &snapshots[number];

	model_read_failed(snapshot->asked);
	model_read_failed(snapshot->asked_again);
	free(snapshot->writes);
	*snapshot = (struct model_snapshot){0};
}

void
model_snapshot_refused(unsigned int number)
{
	model_read_failed(snapshots[number].asked_again);
	snapshots[number].asked_again = 0;
}

void
model_snapshot_made(unsigned int number, int64_t until)
{
	struct model_snapshot *snapshot = &snapshots[number];
	const uint64_t asked = snapshot->asked_again;

	model_read_failed(snapshot->asked);
	free(snapshot->writes);
	*snapshot = (struct model_snapshot){
		.asked = asked,
		.made = ++moment,
		.until = until,
		.after = asked,
		.before = moment,
		.writes = malloc(sector_count * sizeof(uint64_t)),
	};
	for (unsigned int i = 0; i < sector_count; i++)
		snapshot->writes[i] = NEVER;
}

uint64_t
model_snapshot(unsigned int number)
{
	const struct model_snapshot *snapshot = &snapshots[number];

	return snapshot->asked_again || scheduler_now() >= snapshot->until ? 0 : snapshot->made;
}

/* That version was there at the snapshot's moment, and what surely follows it was not. */
static void
snapshot_narrow(struct model_snapshot *snapshot, unsigned int sector, const struct version *version)
{
	const struct sector_history *history = &histories[sector];

	if (version->start > snapshot->after)
		snapshot->after = version->start;
	for (unsigned int i = 0; i < history->count; i++) {
		const struct version *newer = &history->versions[i];

		if (version->end < newer->start && newer->seen < snapshot->before)
			snapshot->before = newer->seen;
	}
	if (snapshot->after > snapshot->before)
		trace_fail("a snapshot: sector %u has the bytes of write %" PRIu64
			   ", and others have what was not there at the same time",
			   sector, version->write);
}

void
model_snapshot_answered(unsigned int number, uint64_t made, unsigned int first, unsigned int count,
			const uint8_t *bytes)
{
	struct model_snapshot *snapshot = &snapshots[number];

	if (snapshot->made != made || snapshot->asked <= last_crash)
		return;
	for (unsigned int i = first; i < first + count; i++, bytes += SECTOR_SIZE) {
		const uint64_t write = model_recognize(i, bytes, "a snapshot");

		if (snapshot->writes[i] != NEVER && snapshot->writes[i] != write)
			trace_fail("snapshot s%u: sector %u had the bytes of write %" PRIu64
				   ", and has those of write %" PRIu64,
				   number, i, snapshot->writes[i], write);
		snapshot->writes[i] = write;
		if (write) {
			sector_check_data(i, write, snapshot->asked, made, "a snapshot");
			snapshot_narrow(snapshot, i, version_find(i, write));
		} else {
			sector_check_zeroes(i, snapshot->asked, made, "a snapshot");
		}
	}
}

void
model_snapshot_zeroes(unsigned int number, uint64_t made, unsigned int first, unsigned int count)
{
	static const uint8_t zeroes[SECTOR_SIZE];

	for (unsigned int i = first; i < first + count; i++)
		model_snapshot_answered(number, made, i, 1, zeroes);
}

/* ---- the server is gone */

void
model_doubt(unsigned int sector)
{
	for (unsigned int i = 0; i < histories[sector].count; i++)
		histories[sector].versions[i].doubtful = true;
}

void
model_settle(void)
{
	moment++;
	for (struct open_write *write = open_writes; write; write = write->next) {
		for (unsigned int i = write->first; i < write->first + write->count; i++) {
			struct version *version = version_find(i, write->write);

			if (version && version->end > moment)
				version->end = moment;
			if (version)
				version->optional = true;
		}
	}
}

void
model_look(const uint8_t *bytes)
{
	moment += 2;
	model_check(0, sector_count, bytes, moment - 1, "the disk");
}

/* Returns whether the version may be there after a crash. */
static bool
version_may_survive(const struct sector_history *history, const struct version *version)
{
	for (unsigned int i = 0; i < history->count; i++) {
		const struct version *newer = &history->versions[i];

		if (newer != version && newer->durable && version->end < newer->start)
			return false;
	}
	return true;
}

/* Returns the newest version with the bytes of a write, or zeroes, that may be there after a crash.
 */
static struct version *
sector_survivor(unsigned int sector, uint64_t write)
{
	struct sector_history *history = &histories[sector];
	struct version *survivor = NULL;
	bool found = false;

	for (unsigned int i = 0; i < history->count; i++) {
		struct version *version = &history->versions[i];

		if (write ? version->write != write : !version->zero)
			continue;
		found = true;
		if (version_may_survive(history, version) &&
		    (!survivor || survivor->start < version->start))
			survivor = version;
	}
	if (!survivor)
		trace_fail("after the crash, sector %u has %s %" PRIu64 ", %s", sector,
			   write ? "the bytes of write" : "zeroes, write", write,
			   found ? "and a durable write is lost" : "which is not one of it");
	return survivor;
}

static void
sector_go_back(unsigned int sector, uint64_t write)
{
	struct sector_history *history = &histories[sector];
	const struct version now = *sector_survivor(sector, write);
	unsigned int kept = 0;

	for (unsigned int i = 0; i < history->count; i++) {
		struct version *version = &history->versions[i];

		if (version->write == now.write && version->start == now.start) {
			version->seen = version->seen < moment ? version->seen : moment;
			version->last = moment;
		}
		if (now.end >= version->start)
			history->versions[kept++] = *version;
	}
	history->count = kept;
}

void
model_go_back(const uint8_t *bytes)
{
	last_crash = ++moment;
	for (unsigned int i = 0; i < sector_count; i++)
		sector_go_back(i, model_recognize(i, bytes + (size_t)i * SECTOR_SIZE,
						  "after a failed sync"));
}

static void
sector_crash(unsigned int sector, uint64_t write)
{
	struct sector_history *history = &histories[sector];

	sector_survivor(sector, write);
	/* What was lost has not changed it. */
	if (!write || !version_find(sector, write))
		history->change_start = history->change_end = 0;
	else if (history->change_start > version_find(sector, write)->start) {
		history->change_start = version_find(sector, write)->start;
		history->change_end = moment;
	}
	history->count = 0;
	*history_add(history) = (struct version){
		.write = write,
		.zero = write == 0,
		.durable = true,
		.start = moment,
		.end = moment,
		.seen = moment,
		.last = moment,
		.known_at = FOR_EVER,
	};
}

void
model_crash(const uint8_t *bytes)
{
	last_crash = ++moment;
	for (unsigned int i = 0; i < sector_count; i++)
		sector_crash(
			i, model_recognize(i, bytes + (size_t)i * SECTOR_SIZE, "after the crash"));
	/* No write in flight takes effect any more; one that is repeated is a new one. */
	while (open_writes) {
		struct open_write *next = open_writes->next;

		free(open_writes);
		open_writes = next;
	}
}
