/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/restore.h"

#include "tool/backup/backup_date.h"
#include "tool/backup/chain.h"
#include "tool/backup/copy.h"
#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/backup/export_end.h"
#include "tool/backup/file_end.h"
#include "tool/backup/raw_backup.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the target */

struct target {
	const char *path; /* of a file; NULL: it's an export */
	int lock, part;
	struct end *end;
};

static bool
open_export(struct target *target, const struct restore_job *job, uint64_t size, GError **error)
{
	const struct export_end_options options = {
		.uri = job->target,
		.connections = job->connections,
		.seconds = job->seconds,
		.writable = true,
		.least_size = size,
	};

	target->end = export_end_open(&options, error);
	return target->end;
}

/* A backup's target has files beside it that tell what it holds; an increment that was interrupted
 * would be written into whatever is in its place. */
static bool
is_no_backup(const char *path, GError **error)
{
	static const char *const suffixes[] = {".state", ".redo"};

	for (guint i = 0; i < G_N_ELEMENTS(suffixes); i++) {
		g_autofree char *beside = g_strconcat(path, suffixes[i], NULL);

		if (access(beside, F_OK) == 0)
			return failure(error, EEXIST,
				       "%s is the target of backups (there is %s): name another "
				       "file, or remove both",
				       path, beside);
	}
	return true;
}

static bool
may_be_replaced(const struct restore_job *job, GError **error)
{
	struct stat st;

	if (!is_no_backup(job->target, error))
		return false;
	if (lstat(job->target, &st) < 0)
		return errno == ENOENT || failure_errno(error, errno, "%s", job->target);
	if (!S_ISREG(st.st_mode))
		return failure(error, EINVAL,
			       "%s is no file: to restore to a device, serve it by nbdloopd, and "
			       "name its URI",
			       job->target);
	if (!job->force)
		return failure(error, EEXIST, "%s is there: remove it, or use --force",
			       job->target);
	/* Its writer would go on with the old file, and all that it writes would be lost. */
	return image_file_has_no_writer(job->target, error);
}

static bool
target_open_file(struct target *target, const struct restore_job *job, uint64_t size,
		 GError **error)
{
	int fd;

	target->path = job->target;
	target->lock = durable_lock(job->target, error);
	if (target->lock < 0)
		return false;
	if (!may_be_replaced(job, error))
		return false;
	target->part = durable_begin(job->target, error);
	if (target->part < 0)
		return false;
	fd = fcntl(target->part, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return failure_errno(error, errno, "%s: %" G_GUINT64_FORMAT " bytes", job->target,
				     size);
	target->end = file_end_new(fd, job->target, true);
	return true;
}

static bool
target_open(struct target *target, const struct restore_job *job, uint64_t size, GError **error)
{
	return nbd_uri_is(job->target) ? open_export(target, job, size, error)
				       : target_open_file(target, job, size, error);
}

/* After the first of several backups, the file has data that zeroes must replace. */
static bool
has_data_now(struct target *target, GError **error)
{
	int fd;

	if (!target->path)
		return true;
	fd = fcntl(target->part, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return failure_errno(error, errno, "%s", target->path);
	end_clear(&target->end);
	target->end = file_end_new(fd, target->path, false);
	return true;
}

static bool
target_keep(struct target *target, GError **error)
{
	if (!target->path)
		return true;
	/* The copy may have taken hours. */
	if (!image_file_has_no_writer(target->path, error) || !durable_end(target->path, error))
		return false;
	close(steal_fd(&target->part));
	return true;
}

static void
target_close(struct target *target)
{
	end_clear(&target->end);
	if (target->part >= 0) {
		durable_cancel(target->path);
		close(target->part);
	}
	if (target->path)
		durable_unlock(target->path, target->lock);
}

#define TARGET_CLEANUP __attribute__((cleanup(target_close)))

/* ---- of deltas */

static bool
copy_link(const struct chain_link *link, struct target *target, const struct restore_job *job,
	  GError **error)
{
	const int fd = chain_open(link, error);
	struct end *END_CLEANUP source = NULL;
	g_autoptr(GArray) plan = NULL;
	struct copy_options options = {.target = target->end, .progress = job->progress};

	if (fd < 0)
		return false;
	options.source = source = delta_end_open(fd, link->path, &link->header);
	options.plan = plan = delta_plan(fd, link->path, &link->header, error);
	if (!plan || !copy_run("restore", &options, error))
		return false;
	job->progress->copied += plan_bytes(plan, false);
	return true;
}

/* How many links the backup of that number needs; 0 with an error. */
static guint
links_until_number(GPtrArray *links, const struct restore_job *job, GError **error)
{
	const struct chain_link *link = links->pdata[links->len - 1];
	guint count = 1;

	if (job->until_number > link->last) {
		failure(error, ENOENT,
			"--until=%" G_GUINT64_FORMAT
			": the last backup in %s is %" G_GUINT64_FORMAT,
			job->until_number, job->source, link->last);
		return 0;
	}
	while ((link = links->pdata[count - 1])->last < job->until_number)
		count++;
	if (link->last == job->until_number)
		return count;
	failure(error, ENOENT,
		"--until=%" G_GUINT64_FORMAT
		": this backup was merged into backup %" G_GUINT64_FORMAT
		"; nbdloop backup list %s shows all",
		job->until_number, link->last, job->source);
	return 0;
}

/* The same for a date. */
static guint
links_until_date(GPtrArray *links, const struct restore_job *job, GError **error)
{
	const struct chain_link *link = links->pdata[0];
	g_autofree char *first = backup_date_text(link->header.seconds);
	guint count = links->len;

	while (count && ((const struct chain_link *)links->pdata[count - 1])->header.seconds >
				job->until_number)
		count--;
	if (!count)
		failure(error, ENOENT, "--until=%s: the first backup in %s is of %s", job->until,
			job->source, first);
	return count;
}

/* The links that are wanted; the rest is freed. */
static bool
choose_links(GPtrArray *links, const struct restore_job *job, GError **error)
{
	guint count;

	if (!links->len)
		return failure(error, ENOENT, "%s has no backups (*.delta)", job->source);
	if (!chain_read_ends(links, error))
		return false;
	chain_remove_merged(links);
	count = !job->until       ? links->len
		: job->until_date ? links_until_date(links, job, error)
				  : links_until_number(links, job, error);
	if (count)
		g_ptr_array_set_size(links, (gint)count);
	return count > 0;
}

static bool
restore_links(GPtrArray *links, const struct restore_job *job, GError **error)
{
	struct target TARGET_CLEANUP target = {.lock = -1, .part = -1};
	const struct chain_link *first = links->pdata[0];

	/* An export that is missing or too small is reported before the chain is read, which takes
	 * long. */
	if (nbd_uri_is(job->target) && !open_export(&target, job, first->header.size, error))
		return false;
	end_clear(&target.end);
	/* All deltas are whole, before the first byte is written. A file that is there stays if the
	 * data turns out to be damaged later; an export would be left with half of it. */
	for (guint i = 0; i < links->len; i++) {
		const struct chain_link *link = links->pdata[i];
		int CLEANUP_CLOSE fd = chain_open(link, error);

		if (fd < 0 || !delta_is_whole(fd, link->path, &link->header,
					      nbd_uri_is(job->target), NULL, error))
			return false;
	}
	if (!target_open(&target, job, first->header.size, error))
		return false;
	for (guint i = 0; i < links->len; i++) {
		if ((i == 1 && !has_data_now(&target, error)) ||
		    !copy_link(links->pdata[i], &target, job, error))
			return false;
	}
	return target_keep(&target, error);
}

/* ---- of a raw backup */

static bool
copy_raw(const struct raw_backup *raw, const struct restore_job *job, GError **error)
{
	struct target TARGET_CLEANUP target = {.lock = -1, .part = -1};
	struct end *END_CLEANUP source = NULL;
	g_autoptr(GArray) plan = plan_new();
	struct copy_options options = {.plan = plan, .progress = job->progress};
	const int fd = durable_open(raw->path, O_RDONLY, error);

	if (fd < 0)
		return false;
	options.source = source = file_end_new(fd, raw->path, false);
	if (!file_end_allocated(source, raw->state.size, plan, error) ||
	    !target_open(&target, job, raw->state.size, error))
		return false;
	options.target = target.end;
	if (!copy_run("restore", &options, error) || !raw_backup_has_stayed(raw, error))
		return false;
	job->progress->copied += plan_bytes(plan, false);
	return target_keep(&target, error);
}

static bool
restore_raw(const struct restore_job *job, GError **error)
{
	struct raw_backup RAW_BACKUP_CLEANUP raw;

	if (!raw_backup_open(&raw, job->source, true, job->progress, error))
		return false;
	if (!raw.exists)
		return failure_errno(error, ENOENT, "%s", job->source);
	if (job->until)
		return failure(error, EINVAL,
			       "--until is for a directory of deltas, and %s is a file",
			       job->source);
	if (!raw.has_state)
		return failure(error, EINVAL,
			       "%s is no backup: there is no %s; a plain image can be copied with "
			       "cp --sparse=always",
			       raw.path, raw.state_path);
	return raw_backup_is_unchanged(&raw, error) && copy_raw(&raw, job, error);
}

bool
restore_run(const struct restore_job *job, GError **error)
{
	g_autoptr(GPtrArray) links = NULL;
	int CLEANUP_CLOSE shared = -1;

	if (!g_file_test(job->source, G_FILE_TEST_IS_DIR))
		return restore_raw(job, error);
	shared = durable_share(job->source, false, error);
	links = shared < 0 ? NULL : chain_read(job->source, error);
	return links && choose_links(links, job, error) && restore_links(links, job, error);
}
