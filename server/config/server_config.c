/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/server_config.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* More rows than engine/image_config.c has, with the one that ends them. */
#define IMAGE_ROWS_MAX 32

/* A context here is a thread's, not a request's. */
static void
fit_depth(struct option_row *row)
{
	row->initial = "128";
	row->max = 1024;
	row->help = "maximum number of operations in flight per thread and image";
	row->manual =
		"The queue depth: the maximum number of operations on an image that each thread has in flight; further\n"
		"requests wait.  To keep a disk busy, the depth must be as large as the number of requests that clients\n"
		"have in flight; the kernel's client sends up to 128 requests on each connection.  Each operation has a\n"
		"buffer of 128 KiB, which occupies memory once it is used: with direct I/O, for requests that are not\n"
		"aligned to its blocks.\n";
}

const struct option_row *
server_image_rows(void)
{
	static struct option_row rows[IMAGE_ROWS_MAX];
	unsigned int count = 0;

	if (rows[0].name)
		return rows;
	for (const struct option_row *row = image_option_rows; row->name; row++) {
		/* Each thread has just one context of an image. */
		if (strcmp(row->name, "contexts") == 0)
			continue;
		assert(count < IMAGE_ROWS_MAX - 1);
		rows[count] = *row;
		if (strcmp(row->name, "depth") == 0)
			fit_depth(&rows[count]);
		count++;
	}
	return rows;
}

static void
export_fini(struct export_config *export)
{
	free(export->name);
	options_free(export_option_rows, export);
	options_free(export_file_rows, export);
	options_free(server_image_rows(), &export->image);
}

static int
export_init(struct export_config *export)
{
	int r;

	*export = (struct export_config){0};
	r = options_init(export_option_rows, export);
	return r < 0 ? r : options_init(server_image_rows(), &export->image);
}

int
config_init(struct server_config *config)
{
	int r;

	*config = (struct server_config){0};
	r = options_init(server_option_rows, config);
	if (r == 0)
		r = export_init(&config->defaults);
	if (r < 0)
		config_fini(config);
	return r;
}

void
config_fini(struct server_config *config)
{
	while (config->exports) {
		struct export_config *export = config->exports;

		config->exports = export->next;
		export_fini(export);
		free(export);
	}
	export_fini(&config->defaults);
	options_free(server_option_rows, config);
}

int
config_set(struct server_config *config, const char *name, const char *value, char **error)
{
	if (option_find(server_option_rows, name))
		return option_set(server_option_rows, config, name, value, error);
	if (option_find(export_option_rows, name))
		return option_set(export_option_rows, &config->defaults, name, value, error);
	return option_set(server_image_rows(), &config->defaults.image, name, value, error);
}

const struct option_row *
config_find(const char *name)
{
	const struct option_row *row = option_find(server_option_rows, name);

	if (!row)
		row = option_find(export_option_rows, name);
	return row ? row : option_find(server_image_rows(), name);
}

int
export_set(struct export_config *export, const char *name, const char *value, char **error)
{
	if (option_find(export_file_rows, name))
		return option_set(export_file_rows, export, name, value, error);
	if (option_find(export_option_rows, name))
		return option_set(export_option_rows, export, name, value, error);
	return option_set(server_image_rows(), &export->image, name, value, error);
}

const struct option_row *
export_find(const char *name)
{
	const struct option_row *row = option_find(export_file_rows, name);

	if (!row)
		row = option_find(export_option_rows, name);
	return row ? row : option_find(server_image_rows(), name);
}

/* Of what an export has by default, only the description is not a number. */
static int
copy_defaults(struct export_config *to, const struct export_config *from)
{
	to->read_only = from->read_only;
	to->image = from->image;
	if (!from->description)
		return 0;
	to->description = strdup(from->description);
	return to->description ? 0 : -ENOMEM;
}

int
config_take_defaults(struct server_config *config, const struct server_config *from)
{
	return copy_defaults(&config->defaults, &from->defaults);
}

int
config_add_export(struct server_config *config, const char *name, struct export_config **added,
		  char **error)
{
	struct export_config **end = &config->exports;
	struct export_config *export;

	for (; *end; end = &(*end)->next) {
		if (strcmp((*end)->name, name) != 0)
			continue;
		return error_set(
			error, -EEXIST,
			"there are two exports named \"%s\"; give one of them another name", name);
	}
	export = calloc(1, sizeof(*export));
	if (!export)
		return -ENOMEM;
	*end = *added = export;
	export->name = strdup(name);
	return export->name ? copy_defaults(export, &config->defaults) : -ENOMEM;
}

int
config_check(const struct server_config *config, char **error)
{
	if (!config->exports)
		return error_set(
			error, -EINVAL,
			"there is no image to serve: name one (nbdloopd disk.img), or use --export or "
			"--config; nbdloopd --help tells more");
	for (const struct export_config *export = config->exports; export; export = export->next) {
		if (export->file && export->file[0])
			continue;
		return error_set(error, -EINVAL,
				 "the export \"%s\" has no image: file=PATH is missing",
				 export->name);
	}
	return 0;
}

static bool
same_value(const struct option_row *row, const void *a, const void *b)
{
	char *CLEANUP_FREE text_a = option_value_text(row, a);
	char *CLEANUP_FREE text_b = option_value_text(row, b);

	return text_a && text_b && strcmp(text_a, text_b) == 0;
}

/* The first row whose values differ, or NULL. */
static const struct option_row *
difference(const struct option_row *rows, const void *a, const void *b)
{
	for (; rows->name; rows++) {
		if (!same_value(rows, a, b))
			return rows;
	}
	return NULL;
}

const char *
export_difference(const struct export_config *a, const struct export_config *b)
{
	const struct option_row *row = difference(export_file_rows, a, b);

	if (!row)
		row = difference(export_option_rows, a, b);
	if (!row)
		row = difference(server_image_rows(), &a->image, &b->image);
	return row ? row->name : NULL;
}

void
config_visit_differences(const struct server_config *a, const struct server_config *b,
			 void (*visit)(const char *name))
{
	for (const struct option_row *row = server_option_rows; row->name; row++) {
		if (!same_value(row, a, b))
			visit(row->name);
	}
}
