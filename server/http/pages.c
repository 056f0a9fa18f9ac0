/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/pages.h"

#include <string.h>

/* Arrays page_html and so on: see server/Makefile.am. */
#include "server/http/page_bytes.inc"

static const struct page pages[] = {
	{"/", "text/html; charset=utf-8", page_html, sizeof(page_html)},
	{"/page.css", "text/css; charset=utf-8", page_css, sizeof(page_css)},
	{"/page.js", "text/javascript; charset=utf-8", page_js, sizeof(page_js)},
	{"/icon.svg", "image/svg+xml", icon_svg, sizeof(icon_svg)},
};

const struct page *
page_find(const char *path)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (strcmp(path, pages[i].path) == 0)
			return &pages[i];
	}
	return NULL;
}
