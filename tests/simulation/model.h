/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model: which bytes the image may have, sector by sector.
 *
 * Each write has a number, which its sectors carry, and an interval from its request to its answer.
 * A sector's history must be one of an atomic register: there is an order of the writes and reads
 * that agrees with their intervals. A write that failed, or whose answer never came, may have taken
 * effect or not.
 *
 * A crash takes back what was not durable: a sector may then be as any write has left it that no
 * durable one follows. A write is durable if it had FUA, or if it was answered before a flush was
 * requested that was answered.
 *
 * A write whose client is gone may take effect late, but not after a newer write was carried out.
 */
#ifndef TESTS_SIMULATION_MODEL_H
#define TESTS_SIMULATION_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum model_kind {
	MODEL_DATA,
	MODEL_ZEROES,
	MODEL_TRIM, /* zeroes, or no change */
};

enum model_outcome {
	MODEL_DONE,
	MODEL_DURABLE,
	MODEL_FAILED,
};

/* An image of zeroes. */
void
model_begin(unsigned int sectors);
void
model_end(void);

/* A write is requested. Returns its number. */
uint64_t
model_write(enum model_kind kind, unsigned int first, unsigned int count);

/* The bytes of a sector of that write. */
void
model_fill(uint64_t write, unsigned int sector, uint8_t *bytes);

void
model_write_answered(uint64_t write, enum model_outcome outcome);

/* Its client is gone; the server knows that at this time. */
void
model_write_abandoned(uint64_t write, int64_t known_at);

/* The server stands still until then: it learns of nobody's end before. */
void
model_stand_still(int64_t until);

/* A read or a flush is requested. Returns a moment, for its answer. */
uint64_t
model_request(void);

void
model_read_answered(uint64_t request, unsigned int first, unsigned int count, const uint8_t *bytes);

/* The server says that these sectors are zeroes. */
void
model_zeroes_answered(uint64_t request, unsigned int first, unsigned int count);

/* The request ended without an answer, or with an error. */
void
model_read_failed(uint64_t request);

void
model_flush_answered(uint64_t request);

/* Checkpoints have numbers below MODEL_CHECKPOINTS. A created one must report each sector that a
 * write changed which was requested since and answered, until it is deleted. */
#define MODEL_CHECKPOINTS 3

void
model_checkpoint_created(unsigned int checkpoint);
void
model_checkpoint_deleted(unsigned int checkpoint);

/* When it was created; 0: it is not known to be there. */
uint64_t
model_checkpoint(unsigned int checkpoint);

/* The checkpoint of that moment says that these sectors have not changed. */
void
model_clean_answered(uint64_t request, unsigned int checkpoint, uint64_t created,
		     unsigned int first, unsigned int count);

/* Snapshots have numbers below MODEL_SNAPSHOTS. One holds, of each sector, what a read could have
 * returned between its request and its answer, and of all sectors at one moment. */
#define MODEL_SNAPSHOTS 3

void
model_snapshot_asked(unsigned int snapshot);
/* `until`: as long it is there. */
void
model_snapshot_made(unsigned int snapshot, int64_t until);
/* There is an older one of its name. */
void
model_snapshot_refused(unsigned int snapshot);
/* There may be another one of its name, or none. */
void
model_snapshot_removed(unsigned int snapshot);

/* When it was made; 0: it is not known to be there. */
uint64_t
model_snapshot(unsigned int snapshot);

/* What was read from the one of that moment. */
void
model_snapshot_answered(unsigned int snapshot, uint64_t made, unsigned int first,
			unsigned int count, const uint8_t *bytes);

/* The same of zeroes. */
void
model_snapshot_zeroes(unsigned int snapshot, uint64_t made, unsigned int first, unsigned int count);

/* A write-back of the sector has failed, and the server that was told so has ended: no later flush
 * makes what it has durable. */
void
model_doubt(unsigned int sector);

/* No write without an answer can take effect any more: the server is gone. */
void
model_settle(void);

/* What the image has now, whose bytes nobody is changing. */
void
model_look(const uint8_t *bytes);

/* The same after a failed sync whose server has given up what was not durable: as after a crash,
 * but what the image has now need not survive the next one. */
void
model_go_back(const uint8_t *bytes);

/* The same after a crash, from which on that is the image. */
void
model_crash(const uint8_t *bytes);

#endif
