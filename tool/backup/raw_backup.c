/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/raw_backup.h"

#include "tool/backup/copy.h"
#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/backup/file_end.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- an increment that was not written to its end */

static bool
apply_delta(struct raw_backup *raw, int fd, const struct delta_header *header,
	    struct progress *progress, GError **error)
{
	struct end *END_CLEANUP source = delta_end_open(fd, raw->redo_path, header);
	struct end *END_CLEANUP target = NULL;
	g_autoptr(GArray) plan = NULL;
	struct copy_options options = {.source = source, .progress = progress};
	int file;

	if (!image_file_has_no_writer(raw->path, error))
		return false;
	file = durable_open(raw->path, O_RDWR, error);
	if (file < 0)
		return false;
	options.target = target = file_end_new(file, raw->path, false);
	options.plan = plan = delta_plan(fd, raw->redo_path, header, error);
	return plan && copy_run("apply", &options, error);
}

/* Whether the file is the one that the increment was begun on. */
static bool
is_begun_on(const struct raw_backup *raw, GError **error)
{
	return !raw->state.applying || raw->state.applying == (int64_t)raw->st.st_ino ||
	       failure(error, EINVAL,
		       "%s is another file than the one that the increment %s was begun on: remove "
		       "the increment, and take a full backup",
		       raw->path, raw->redo_path);
}

/* The state after an increment.  Another file may have got the name while it was written. */
static bool
raw_note_state(struct raw_backup *raw, const struct delta_header *header, GError **error)
{
	struct backup_state *state = &raw->state;

	if (stat(raw->path, &raw->st) < 0)
		return failure_errno(error, errno, "%s", raw->path);
	if (!is_begun_on(raw, error))
		return false;
	g_free(state->source);
	state->source = g_strdup(header->source);
	g_free(state->bitmap);
	state->bitmap = *header->bitmap ? g_strdup(header->bitmap) : NULL;
	memcpy(state->id, header->id, DELTA_ID_SIZE);
	state->seconds = header->seconds;
	backup_state_note_file(state, &raw->st);
	return backup_state_write(state, raw->state_path, error);
}

static bool
redo_interrupted(struct raw_backup *raw, struct progress *progress, GError **error)
{
	g_autofree struct delta_header *header = g_new0(struct delta_header, 1);
	g_autoptr(GError) why = NULL;
	int CLEANUP_CLOSE fd = durable_open(raw->redo_path, O_RDONLY, &why);
	bool done, next;

	if (fd < 0)
		return failure_is(why, ENOENT) || failure_pass(error, &why);
	if (!delta_read_header(fd, raw->redo_path, header, error))
		return false;
	done = raw->has_state && memcmp(header->id, raw->state.id, DELTA_ID_SIZE) == 0;
	next = raw->has_state && memcmp(header->parent, raw->state.id, DELTA_ID_SIZE) == 0;
	if (!done && !next)
		return failure(error, EINVAL,
			       "%s is an increment, but not of %s: remove it, and take a full "
			       "backup",
			       raw->redo_path, raw->path);
	if (!done && (!is_begun_on(raw, error) ||
		      !apply_delta(raw, steal_fd(&fd), header, progress, error) ||
		      !raw_note_state(raw, header, error)))
		return false;
	return unlink(raw->redo_path) == 0 || failure_errno(error, errno, "%s", raw->redo_path);
}

/* ---- its life */

static bool
raw_read_facts(struct raw_backup *raw, GError **error)
{
	g_autoptr(GError) why = NULL;

	raw->exists = stat(raw->path, &raw->st) == 0;
	if (!raw->exists && errno != ENOENT)
		return failure_errno(error, errno, "%s", raw->path);
	if (raw->exists && !S_ISREG(raw->st.st_mode))
		return failure(error, EINVAL,
			       "%s is no file: a backup is a file, a directory of deltas "
			       "(--format=delta) or an export (a URI)",
			       raw->path);
	raw->has_state = backup_state_read(&raw->state, raw->state_path, &why);
	return raw->has_state || failure_is(why, ENOENT) || failure_pass(error, &why);
}

bool
raw_backup_open(struct raw_backup *raw, const char *path, bool to_read, struct progress *progress,
		GError **error)
{
	/* The file itself: the new one takes its place, not that of a link to it. */
	char *CLEANUP_FREE real = realpath(path, NULL);

	*raw = (struct raw_backup){.path = g_strdup(real ? real : path), .lock = -1, .part = -1};
	raw->state_path = g_strconcat(raw->path, ".state", NULL);
	raw->redo_path = g_strconcat(raw->path, ".redo", NULL);
	if (g_file_test(raw->path, G_FILE_TEST_IS_DIR))
		return failure(error, EISDIR,
			       "%s is a directory: name a file in it, or use --format=delta", path);
	if (to_read && !durable_lock_to_read(raw->path, &raw->lock, error))
		return false;
	if (!to_read)
		raw->lock = durable_lock(raw->path, error);
	return (to_read || raw->lock >= 0) && raw_read_facts(raw, error) &&
	       redo_interrupted(raw, progress, error);
}

bool
raw_backup_has_stayed(const struct raw_backup *raw, GError **error)
{
	struct stat now;

	if (stat(raw->path, &now) < 0)
		return failure_errno(error, errno, "%s", raw->path);
	return (now.st_ino == raw->st.st_ino && backup_state_is_of_file(&raw->state, &now) &&
		access(raw->redo_path, F_OK) != 0) ||
	       failure(error, EBUSY, "%s has changed meanwhile: restore it again", raw->path);
}

void
raw_backup_close(struct raw_backup *raw)
{
	if (raw->part >= 0) {
		durable_cancel(raw->path);
		close(raw->part);
	}
	durable_unlock(raw->path, raw->lock);
	backup_state_fini(&raw->state);
	g_free(raw->path);
	g_free(raw->state_path);
	g_free(raw->redo_path);
}

int
raw_backup_begin(struct raw_backup *raw, GError **error)
{
	int fd;

	raw->part = durable_begin(raw->path, error);
	if (raw->part < 0)
		return -1;
	/* As the file that it is to replace; another owner needs root. */
	if (raw->exists &&
	    (fchmod(raw->part, raw->st.st_mode & 07777) < 0 ||
	     (geteuid() == 0 && fchown(raw->part, raw->st.st_uid, raw->st.st_gid) < 0)))
		log_warning("%s: its owner or mode can't be kept: %s", raw->path,
			    g_strerror(errno));
	fd = fcntl(raw->part, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		failure_errno(error, errno, "%s", raw->path);
	return fd;
}

bool
raw_backup_replace(struct raw_backup *raw, struct backup_state *state, GError **error)
{
	if (fstat(raw->part, &raw->st) < 0)
		return failure_errno(error, errno, "%s", raw->path);
	/* The copy may have taken hours; a writer would go on with the old file. */
	if (!image_file_has_no_writer(raw->path, error) || !durable_end(raw->path, error))
		return false;
	close(steal_fd(&raw->part)); /* there is nothing to remove any more */
	backup_state_note_file(state, &raw->st);
	return backup_state_write(state, raw->state_path, error);
}

bool
raw_backup_apply(struct raw_backup *raw, struct progress *progress, GError **error)
{
	g_autofree char *part = g_strconcat(raw->path, ".part", NULL);

	if (stat(raw->path, &raw->st) < 0)
		return failure_errno(error, errno, "%s", raw->path);
	/* The copy may have taken hours. */
	if (!raw_backup_is_unchanged(raw, error))
		return false;
	/* An increment that is interrupted from now on is written to this file, and to no other one
	 * that is put in its place. */
	raw->state.applying = (int64_t)raw->st.st_ino;
	if (!backup_state_write(&raw->state, raw->state_path, error) ||
	    !durable_rename(part, raw->redo_path, error))
		return false;
	close(steal_fd(&raw->part));
	return redo_interrupted(raw, progress, error);
}

void
raw_backup_distrust(struct raw_backup *raw)
{
	g_autoptr(GError) why = NULL;

	g_clear_pointer(&raw->state.bitmap, g_free);
	if (!backup_state_write(&raw->state, raw->state_path, &why))
		log_warning("%s", why->message);
}

bool
raw_backup_is_unchanged(const struct raw_backup *raw, GError **error)
{
	return backup_state_is_of_file(&raw->state, &raw->st) ||
	       failure(error, EINVAL,
		       "%s was changed since its last backup, and is no copy of the source any "
		       "more: take a full backup",
		       raw->path);
}
