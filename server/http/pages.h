/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of the page, which the build puts into the program. They hold no figures.
 */
#ifndef SERVER_HTTP_PAGES_H
#define SERVER_HTTP_PAGES_H

#include <stddef.h>

struct page {
	const char *path; /* of the URL */
	const char *type; /* media type */
	const unsigned char *bytes;
	size_t size;
};

/* The page with that path, or NULL. */
const struct page *
page_find(const char *path);

#endif
