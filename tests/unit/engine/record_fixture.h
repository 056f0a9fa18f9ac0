/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of checkpoints with a record, and a test between the engine and the system for the calls
 * that change files.
 */
#ifndef TESTS_UNIT_ENGINE_RECORD_FIXTURE_H
#define TESTS_UNIT_ENGINE_RECORD_FIXTURE_H

#include "engine/changes/checkpoint.h"

#include "engine/changes/checkpoint_list.h"
#include "engine/changes/recorder.h"
#include "tests/unit/fake_image.h"

#define MIB      (UINT64_C(1) << 20)
#define GRANULE  (64 * UINT64_C(1024))
#define REGION   RECORD_REGION_MIN
#define SIZE     (3 * REGION)
#define GRANULES (SIZE / GRANULE)

/* What is to happen at a call. */
enum fault {
	NONE,
	KILL,     /* the process ends */
	CUT,      /* and what was not synced is lost, in part */
	NO_SPACE, /* this call and all later ones fail */
};

/* What a scenario, which may run in a process of its own, tells the test. */
struct told {
	unsigned int calls;
	bool touched[GRANULES]; /* a client has asked for a change */
	struct {
		bool asked, begun, ending;
		bool must[GRANULES]; /* the image has changed since the checkpoint was there */
		bool may[GRANULES];  /* a client has asked for it after that */
	} of[3];
	bool dirty[GRANULES]; /* the image's disk lacks it */
};

extern struct told *told;
extern const char *const names[3]; /* of checkpoints */

extern enum fault fault;
extern unsigned int fault_at; /* number of the call */
extern bool blocks_only;      /* a power cut loses blocks, and no headers */
extern uint32_t chance;       /* state of the random choice of what it loses; 0: all */
extern struct fake_image disk;
extern struct checkpoints *set;
extern char path[64];            /* of the record */
extern struct stat record_facts; /* of the record, once it is there */
extern const char *kernel;       /* its boot id */
extern int64_t age;              /* of its run */

extern int sync_error; /* errno of the image's syncs; 0: they succeed */
extern int read_error; /* errno of reading the record's marks; 0: it succeeds */

extern int header_error;       /* the same for its headers */
extern bool first_header_only; /* .. for one of them */
extern int record_error;       /* errno of the record's next sync */

/* Called by each sync of the image, by each of the record, by the next write of marks, and by the
 * next one of a header. */
extern void (*at_sync)(void);
extern void (*at_record_sync)(void);
extern void (*at_block)(void);
extern void (*at_header)(void);

/* An image, and no record. */
void
begin_test(void);
void
end_test(void);

/* Makes the set, with what is in the record. */
void
open_set(void);

/* Changes so many granules of the image. */
void
change(enum io_op op, uint64_t granule, uint64_t granules);

/* Begins or ends the checkpoint of the i-th name. Returns 0 or -errno. */
int
begin(unsigned int i);
void
end(unsigned int i);

/* Returns the checkpoint, which the caller releases, or NULL. */
struct checkpoint *
hold(const char *name);

/* Fails if a checkpoint tells too little, or too much. `regions`: whole regions may be too much;
 * `at`: number of the call. */
void
judge(bool regions, unsigned int at);

/* As the end of the process does: the engine remembers no failure of a sync. */
void
forget_failure(void);

/* Reads one of the record's two headers. Returns whether it is whole. */
bool
read_header(unsigned int which, struct record_header *header);

/* The set's checkpoints are unknown, and the reason has this part. Frees the set. */
void
expect_unknown(const char *part);

/* As a write of another program does; which time it sets doesn't matter. */
void
set_times(void);

#endif
