/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugins/loop/plugin_exports.h"

#include "engine/backing/file/file.h"
#include "engine/backing/image_kinds.h"
#include "engine/context/pool.h"
#include "engine/image/image_status.h"

#include "common/cleanup.h"
#include "common/event.h"
#include "common/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct loop_config *config;
static int directory = -1; /* dir= */

/* Guards the list. Never held during I/O. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct export *images;

/* The image can't be served. */
static void
export_report(int r, const char *path, const char *error)
{
	log_error("%s", error ? error : "out of memory");
	event_raise(&(struct event){
		.kind = EVENT_REFUSED, .subject = path, .error = -r, .text = error});
}

static void
free_export_image(struct export *e)
{
	image_close(e->image);
	free(e->name);
	free(e);
}

/* Others have changed the size of the image. */
static bool
plugin_follow_size(void *data, bool shrunk)
{
	(void)shrunk;
	image_adopt_size(data);
	return true;
}

/* Opens an image. Returns NULL after an error, which is in the log. */
static struct export *
plugin_open_export(int dirfd, const char *path, unsigned int flags, const char *name)
{
	struct export *e = calloc(1, sizeof(*e));
	char *CLEANUP_FREE error = NULL;
	int r;

	if (!e || (e->name = strdup(name)) == NULL) {
		free(e);
		export_report(-ENOMEM, path, NULL);
		return NULL;
	}
	r = image_open(dirfd, path, flags, &config->image, &e->image, &error);
	if (r < 0) {
		export_report(r, path, error);
		free(e->name);
		free(e);
		return NULL;
	}
	image_follow_size(e->image, plugin_follow_size, e->image);
	return e;
}

static void
export_say_what_runs(const struct export *e)
{
	bool degraded;
	char *CLEANUP_FREE summary = image_summary(e->image, &degraded);

	if (summary && degraded && exports_are_files_of_directory())
		log_warning("%s", summary); /* in the background, info does not reach the log */
	else if (summary)
		log_info("%s", summary);
}

/*
 * Only when the first client connects does nbdkit tell a plugin whether -r was given, so the plugin
 * cannot take the lock before that. Another program that writes excludes us in any case, one that
 * reads only if our clients may write.
 */
static int
export_check_lock(const struct export *e)
{
	char *CLEANUP_FREE error = NULL;
	char *CLEANUP_FREE ignored = NULL;
	int r = image_lock_check(e->image, false, &error);

	if (r == 0)
		return 0;
	/* With lock=shared, writers exclude readers but not other writers. */
	if (image_writable(e->image) && image_lock_check(e->image, true, &ignored) == 0)
		return 0;
	export_report(r, config->file, error);
	return -1;
}

/* Opens the only image. Returns 0, or -1 after an error, which is in the log. */
static int
start_file(void)
{
	struct export *e = plugin_open_export(AT_FDCWD, config->file, 0, "");

	if (!e)
		return -1;
	if (export_check_lock(e) < 0) {
		free_export_image(e);
		return -1;
	}
	e->references = 1;
	images = e;
	return 0;
}

/* Opens the image while the user can still see an error. If it does not survive a fork, it is
 * closed again until exports_forked(). */
static int
try_file(void)
{
	if (start_file() < 0)
		return -1;
	export_say_what_runs(images);
	if (image_survives_fork(images->image))
		return 0;
	exports_stop();
	if (!config->swap)
		return 0;
	log_error("swap=on is not possible: %s: %s needs new memory for each request", config->file,
		  image_kind_of(config->file)->library);
	return -1;
}

int
exports_forked(void)
{
	return images || exports_are_files_of_directory() ? 0 : start_file();
}

int
exports_start(const struct loop_config *loop_config)
{
	config = loop_config;
	if (!config->dir)
		return try_file();
	directory = open(config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0) {
		log_error("dir=%s: %s", config->dir, strerror(errno));
		return -1;
	}
	log_info("serving the files of %s; what runs is told when a client opens one", config->dir);
	return 0;
}

void
exports_stop(void)
{
	while (images) {
		struct export *e = images;

		images = e->next;
		free_export_image(e);
	}
	if (directory >= 0)
		close(directory);
	directory = -1;
}

char *
exports_path(const struct export *e)
{
	struct image_status status;
	char *path;

	image_status(e->image, &status);
	if (!exports_are_files_of_directory())
		return strdup(status.path);
	return asprintf(&path, "%s/%s", config->dir, status.path) < 0 ? NULL : path;
}

bool
exports_are_files_of_directory(void)
{
	return directory >= 0;
}

/* Returns the export of a name in dir=, with a reference. Opens the file before it looks for it
 * among the open ones: because of links, only an open file shows which file it is. */
static struct export *
join_file_of_directory(const char *name)
{
	struct export *opened = NULL;
	struct export *e;

	if (name[0] == '\0')
		log_error("an export name is needed: there is not just one file in %s",
			  config->dir);
	else
		opened = plugin_open_export(directory, name, BACKING_BENEATH, name);
	if (!opened)
		return NULL;
	pthread_mutex_lock(&mutex);
	for (e = images; e && !image_same(e->image, opened->image); e = e->next)
		;
	if (!e) {
		e = steal_pointer(&opened);
		e->next = images;
		images = e;
	}
	e->references++;
	pthread_mutex_unlock(&mutex);
	if (opened)
		free_export_image(opened);
	else
		export_say_what_runs(e);
	return e;
}

void
exports_put(struct export *e)
{
	struct export **at;
	bool last;

	pthread_mutex_lock(&mutex);
	last = --e->references == 0;
	if (last) {
		for (at = &images; *at != e; at = &(*at)->next)
			;
		*at = e->next;
	}
	pthread_mutex_unlock(&mutex);
	if (last)
		free_export_image(e);
}

struct export *
exports_join(const char *name, bool writable)
{
	char *CLEANUP_FREE error = NULL;
	struct export *e;
	int r;

	if (exports_are_files_of_directory()) {
		e = join_file_of_directory(name);
	} else {
		pthread_mutex_lock(&mutex);
		e = images;
		e->references++;
		pthread_mutex_unlock(&mutex);
	}
	if (!e)
		return NULL;
	r = image_lock(e->image, writable && image_writable(e->image), &error);
	if (r < 0) {
		export_report(r, config->file ? config->file : name, error);
		exports_put(e);
		return NULL;
	}
	if (config->swap && pool_reserve(e->image) < 0) {
		log_error(
			"swap=on: there is no memory for %u I/O contexts; contexts= or depth= can be smaller",
			config->image.contexts);
		exports_put(e);
		return NULL;
	}
	e->connections++;
	return e;
}

void
exports_leave(struct export *e)
{
	e->connections--;
	exports_put(e);
}

int
exports_visit_names(int (*visit)(void *data, const char *name), void *data)
{
	/* Not dup(), because a duplicate would share its position with other connections. */
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		/* A link is an export if it leads to a file in the directory. */
		if (entry->d_type == DT_REG ||
		    ((entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) &&
		     file_is_beneath(directory, entry->d_name)))
			r = visit(data, entry->d_name);
	}
	closedir(dir);
	return r;
}

struct export *
exports_get(const char *name)
{
	struct export *e;

	pthread_mutex_lock(&mutex);
	e = images;
	if (name) {
		while (e && strcmp(e->name, name) != 0)
			e = e->next;
	} else if (e && e->next) {
		e = NULL;
	}
	if (e)
		e->references++;
	pthread_mutex_unlock(&mutex);
	return e;
}

void
exports_visit(void (*visit)(void *data, struct export *e), void *data)
{
	pthread_mutex_lock(&mutex);
	for (struct export *e = images; e; e = e->next)
		visit(data, e);
	pthread_mutex_unlock(&mutex);
}
