/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's choices about an image, and the option rows that parse, explain and report them. Every
 * program that serves images uses these rows.
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

enum page_cache_choice {
	PAGE_CACHE_KEEP,
	PAGE_CACHE_DROP,
	PAGE_CACHE_AUTO, /* drop if direct I/O was wanted and is not possible, else keep */
};

enum lock_choice {
	LOCK_OFF,
	LOCK_SHARED,
	LOCK_EXCLUSIVE,
	LOCK_AUTO, /* exclusive when writable, shared when read-only */
};

enum ceph_lock_choice {
	CEPH_LOCK_WRITE, /* before the first change */
	CEPH_LOCK_START, /* before the first client */
};

struct image_config {
	uint64_t offset;         /* start of the window in the file, in bytes */
	uint64_t sizelimit;      /* length of the window, in bytes; 0: up to the end of the file */
	uint64_t sector_size;    /* in bytes; 0: what direct I/O needs, else 512, or 1 if 512 would
				    hide the file's end */
	unsigned int direct_io;  /* enum tristate */
	unsigned int page_cache; /* enum page_cache_choice */
	unsigned int engine;     /* enum engine_choice */
	unsigned int poll;       /* enum tristate */
	unsigned int contexts;   /* the most I/O contexts; 0: as many as there are threads */
	unsigned int depth;      /* the most chunks in flight in one context */
	unsigned int discard;    /* TRISTATE_OFF or TRISTATE_ON */
	unsigned int lock;       /* enum lock_choice */
	unsigned int force;      /* TRISTATE_OFF or TRISTATE_ON */
	unsigned int changed_base; /* TRISTATE_OFF or TRISTATE_ON */
	char *base_path; /* directories of bases of layers, with colons between them; NULL: none */
	unsigned int temporary; /* TRISTATE_OFF or TRISTATE_ON; see layer_backing_put_temporary() */
	char *scratch;          /* a directory; NULL: as scratch_directory() chooses */
	/* For images in Ceph; NULL: as Ceph's own tools choose. image_config_copy() copies them. */
	char *ceph_conf;
	char *ceph_user;
	char *ceph_keyring;
	unsigned int ceph_lock;       /* enum ceph_lock_choice */
	char *ceph_fence;             /* whose place is taken; NULL: nobody's */
	unsigned int cluster_timeout; /* seconds; 0: requests wait for ever */
	/* For images on other machines. */
	char *base_ca;             /* file with certificates; NULL: the system's */
	unsigned int base_timeout; /* seconds */
};

/* Names of enum engine_choice and enum page_cache_choice, as users write them. NULL follows the
 * last one. */
extern const char *const image_engine_names[];
extern const char *const image_page_cache_names[];

/* What the rows of these options have in common in all programs; each adds its .field and, where it
 * is not here, its .help. */
#define IMAGE_OPTION_OFFSET      .name = "offset", .type = OPTION_SIZE, .arg = "SIZE"
#define IMAGE_OPTION_SIZELIMIT   .name = "sizelimit", .type = OPTION_SIZE, .arg = "SIZE"
#define IMAGE_OPTION_SECTOR_SIZE .name = "sector-size", .type = OPTION_SIZE
#define IMAGE_OPTION_DIRECT_IO   .name = "direct-io", OPTION_OFF_ON_AUTO, .initial = "auto"
#define IMAGE_OPTION_PAGE_CACHE                                                                    \
	.name = "page-cache", .type = OPTION_CHOICE, .initial = "auto",                            \
	.choices = image_page_cache_names, .arg = "keep|drop|auto",                                \
	.help = "without direct I/O, whether the image's data stays in the page cache"
#define IMAGE_OPTION_ENGINE                                                                        \
	.name = "engine", .type = OPTION_CHOICE, .initial = "auto", .choices = image_engine_names, \
	.arg = "auto|io_uring|aio|threads"
#define IMAGE_OPTION_POLL         .name = "poll", OPTION_OFF_ON_AUTO, .initial = "off"
#define IMAGE_OPTION_TEMPORARY    .name = "temporary", OPTION_OFF_ON, .initial = "off", .alone = "on"
#define IMAGE_OPTION_SCRATCH      .name = "scratch", .type = OPTION_STRING, .arg = "DIR"
#define IMAGE_OPTION_CEPH_CONF    .name = "ceph-conf", .type = OPTION_STRING, .arg = "FILE"
#define IMAGE_OPTION_CEPH_USER    .name = "ceph-user", .type = OPTION_STRING, .arg = "NAME"
#define IMAGE_OPTION_CEPH_KEYRING .name = "ceph-keyring", .type = OPTION_STRING, .arg = "FILE"
#define IMAGE_OPTION_CLUSTER_TIMEOUT                                                               \
	.name = "cluster-timeout", .type = OPTION_UINT, .initial = "0", .max = 86400,              \
	.arg = "SECONDS"
#define IMAGE_OPTION_BASE_CA .name = "base-ca", .type = OPTION_STRING, .arg = "FILE"
#define IMAGE_OPTION_BASE_TIMEOUT                                                                  \
	.name = "base-timeout", .type = OPTION_UINT, .initial = "60", .min = 1, .max = 86400,      \
	.arg = "SECONDS"

/* The options of an image. Their fields are offsets in struct image_config. A row with .name NULL
 * follows the last one. */
extern const struct option_row image_option_rows[];

/* What `choice` means for a client that may write, or not: any but LOCK_AUTO; and its name. */
enum lock_choice
lock_resolve(enum lock_choice choice, bool writable);
const char *
lock_resolved_name(enum lock_choice choice, bool writable);

/* Copies a configuration. Returns 0, and the caller frees the copy's strings with options_free();
 * or -ENOMEM. */
int
image_config_copy(struct image_config *to, const struct image_config *from);

#endif
