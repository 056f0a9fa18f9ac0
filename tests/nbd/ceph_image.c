/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/ceph_image.h"

#include "common/cleanup.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES 16

static struct {
	char *path, *name;
} images[IMAGES];
static unsigned int image_count;

/* The test ends if the command fails. */
static void
run(const char *action, const char *from, const char *to)
{
	char *CLEANUP_FREE command = NULL;

	ck_assert_int_ge(
		asprintf(&command, "rbd --no-progress %s '%s' '%s' >/dev/null", action, from, to),
		0);
	ck_assert_msg(system(command) == 0, "%s failed", command);
}

static const char *
name_of(const char *path)
{
	for (unsigned int i = 0; i < image_count; i++) {
		if (strcmp(images[i].path, path) == 0)
			return images[i].name;
	}
	return NULL;
}

bool
ceph_image_is_imported(const char *path)
{
	return name_of(path) != NULL;
}

const char *
ceph_image_import(const char *path)
{
	const char *known = name_of(path);
	char *CLEANUP_FREE action = NULL;
	char *name;

	if (known)
		return known;
	ck_assert_uint_lt(image_count, IMAGES);
	ck_assert_int_ge(asprintf(&name, "rbd:rbd/%s", path + 1), 0);
	for (char *c = name + strlen("rbd:rbd/"); *c; c++) {
		if (*c == '/')
			*c = '-';
	}
	ck_assert_int_ge(asprintf(&action, "import --object-size %s", getenv("LOOP_CEPH")), 0);
	run(action, path, name + strlen("rbd:"));
	images[image_count].path = strdup(path);
	images[image_count++].name = name;
	return name;
}

void
ceph_image_update(const char *path)
{
	const char *name = name_of(path);

	if (!name)
		return;
	remove(path);
	run("export", name + strlen("rbd:"), path);
}

void
ceph_image_remove_all(void)
{
	while (image_count > 0) {
		char *CLEANUP_FREE name = images[--image_count].name;
		char *CLEANUP_FREE command = NULL;

		free(images[image_count].path);
		/* It fails while the cluster still waits for a server that was killed. */
		if (asprintf(&command, "rbd --no-progress rm '%s' >/dev/null 2>&1",
			     name + strlen("rbd:")) >= 0 &&
		    system(command) != 0)
			fprintf(stderr, "%s stays\n", name);
	}
}
