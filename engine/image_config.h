/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user can choose about an image, and the option rows that parse, explain and
 * report it.  Every program that serves images uses these rows.
 */
#ifndef ENGINE_IMAGE_CONFIG_H
#define ENGINE_IMAGE_CONFIG_H

#include "common/option_row.h"

#include <stdint.h>

enum engine_choice {
	ENGINE_AUTO,
	ENGINE_IO_URING,
	ENGINE_AIO,
	ENGINE_THREADS,
};

enum lock_choice {
	LOCK_OFF,
	LOCK_SHARED,
	LOCK_EXCLUSIVE,
	LOCK_AUTO, /* exclusive when writable, shared when read-only */
};

struct image_config {
	uint64_t offset;        /* start of the window in the file, bytes */
	uint64_t sizelimit;     /* length of the window, bytes; 0: to the end */
	uint64_t sector_size;   /* bytes; 0: what direct I/O needs, else 512, or 1 where that hides
				   the file's end */
	unsigned int direct_io; /* enum tristate */
	unsigned int engine;    /* enum engine_choice */
	unsigned int poll;      /* enum tristate */
	unsigned int contexts;  /* most I/O contexts; 0: as many as there are threads */
	unsigned int depth;     /* operations in flight in one context */
	unsigned int discard;   /* TRISTATE_OFF or TRISTATE_ON */
	unsigned int lock;      /* enum lock_choice */
	unsigned int force;     /* TRISTATE_OFF or TRISTATE_ON */
};

/* Of enum engine_choice, as users write them; NULL after the last one. */
extern const char *const image_engine_names[];

/* Their fields are offsets in struct image_config. */
extern const struct option_row image_option_rows[];

#endif
