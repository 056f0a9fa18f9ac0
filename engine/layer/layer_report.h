/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a chain are, and what is wrong with them: for people, not for servers. A report
 * goes on where layers_open() refuses: after a base that is missing or has changed, or a map that
 * is damaged. It changes nothing, and may be made while a server writes to the topmost layer.
 */
#ifndef ENGINE_LAYER_LAYER_REPORT_H
#define ENGINE_LAYER_LAYER_REPORT_H

#include "engine/layer/layer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the last server of a layer has ended, if the layer is not sealed. */
enum layer_ending {
	LAYER_ENDED,       /* well */
	LAYER_OPEN,        /* not yet, or killed: the recent map counts */
	LAYER_CUT,         /* by a power cut: only the stable map counts */
	LAYER_SYNC_FAILED, /* after a failed sync: only the stable map counts */
};

enum layer_trouble {
	LAYER_UNTIDY,  /* nothing is lost; something is to be done */
	LAYER_UNKNOWN, /* a file can't be looked at */
	LAYER_DAMAGED,
};

/* A file of the chain. */
struct layer_part {
	char *name; /* as the caller or the layer above gives it */
	char *path; /* absolute, without links; NULL: the file can't be opened */
	bool layer; /* otherwise raw bytes */
	bool block_device;
	bool matches;               /* it is the base that the layer above it was made on */
	uint64_t size;              /* of its disk, in bytes */
	uint64_t allocated;         /* by its file system, in bytes */
	struct layer_header header; /* of a layer, as the members below */
	enum layer_ending ending;
	bool busy;       /* a server writes to it: the topmost one's */
	uint64_t held;   /* bytes of the disk that it holds */
	uint64_t recent; /* of these, bytes that are in the recent map only */
};

struct layer_finding {
	enum layer_trouble trouble;
	char *text; /* a sentence that names the file */
};

struct layer_report {
	struct layer_part parts[LAYER_DEPTH_MAX + 1]; /* the topmost first */
	unsigned int count;
	struct layer_finding *findings;
	size_t finding_count;
};

/* Looks at the chain of the layer `wish->path`. `alone`: keeps writers away meanwhile, or fails if
 * there is one. Returns 0 and the caller frees the report; or -errno with *error, a sentence (the
 * caller frees it): the topmost layer can't be looked at. */
int
layer_report_new(const struct layer_wish *wish, bool alone, struct layer_report **report,
		 char **error);

/* NULL is allowed. */
void
layer_report_free(struct layer_report *report);

/* Does what a server's start and end would do for the maps of a layer, and writes both copies of
 * the header. Returns 0, or -errno with *error, as above. */
int
layer_repair(const struct layer_wish *wish, char **error);

#endif
