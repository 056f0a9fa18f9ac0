/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/keys/new_files.h"

#include "tool/failure.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

struct new_file {
	char *path;
	char *draft; /* the path under which it is written */
	bool replaces, made;
	mode_t mode;
	mode_t before; /* with `replaces`: the old one's */
	uid_t owner;   /* with `replaces`; else -1 */
	gid_t group;   /* -1: the user's */
};

static void
file_free(struct new_file *file)
{
	unlink(file->draft);
	g_free(file->draft);
	g_free(file->path);
	g_free(file);
}

/* Signals that end a program wait while it makes files: drafts would be left. */
static void
new_files_set_signals(int how)
{
	static const int all[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	sigset_t set;

	sigemptyset(&set);
	for (guint i = 0; i < G_N_ELEMENTS(all); i++)
		sigaddset(&set, all[i]);
	sigprocmask(how, &set, NULL);
}

void
new_files_in_child(void *unused)
{
	(void)unused;
	new_files_set_signals(SIG_UNBLOCK);
}

bool
new_files_begin(struct new_files *files, const char *directory, GError **error)
{
	*files = (struct new_files){
		.lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.all = g_ptr_array_new_with_free_func((GDestroyNotify)file_free),
		.directories = g_ptr_array_new_with_free_func(g_free),
	};
	if (files->lock < 0)
		return failure_errno(error, errno, "%s", directory);
	if (flock(files->lock, LOCK_EX) < 0)
		return failure_errno(error, errno, "%s can't be locked", directory);
	files->drafts = g_build_filename(directory, ".nbdloop-keys.XXXXXX", NULL);
	new_files_set_signals(SIG_BLOCK);
	/* Of mode 0700. */
	if (mkdtemp(files->drafts))
		return true;
	failure_errno(error, errno, "no files can be made in %s", directory);
	g_clear_pointer(&files->drafts, g_free);
	return false;
}

/* The group that reads a server's files in the directory, as of root:nbdloopd with mode 0750; -1:
 * there is none. */
static gid_t
new_files_reader(const char *directory)
{
	struct stat st;
	const bool found = stat(directory, &st) == 0 && st.st_uid == geteuid() &&
			   st.st_gid != getegid() && st.st_mode & S_IXGRP &&
			   !(st.st_mode & S_IRWXO);

	return found ? st.st_gid : (gid_t)-1;
}

bool
new_files_make_directory(const char *path, GError **error)
{
	g_autofree char *parent = g_path_get_dirname(path);
	const gid_t reader = new_files_reader(parent);

	if (mkdir(path, S_IRWXU) < 0)
		return errno == EEXIST ||
		       failure_errno(error, errno, "the directory %s can't be made", path);
	return reader == (gid_t)-1 ||
	       (chown(path, (uid_t)-1, reader) == 0 && chmod(path, 0750) == 0) ||
	       failure_errno(error, errno, "the directory %s can't be given its group", path);
}

bool
new_files_add_directory(struct new_files *files, const char *path, mode_t mode, GError **error)
{
	if (mkdir(path, mode) == 0)
		g_ptr_array_add(files->directories, g_strdup(path));
	else if (errno != EEXIST)
		return failure_errno(error, errno, "the directory %s can't be made", path);
	return true;
}

const char *
new_files_add(struct new_files *files, const char *path, mode_t mode, const struct stat *replaced)
{
	struct new_file *file = g_new0(struct new_file, 1);
	const bool for_group = !replaced && mode & S_IRGRP && !(mode & S_IROTH);
	g_autofree char *directory = g_path_get_dirname(path);
	const gid_t reader = for_group ? new_files_reader(directory) : (gid_t)-1;

	if (for_group && reader == (gid_t)-1)
		mode &= ~(mode_t)S_IRWXG;
	file->path = g_strdup(path);
	file->draft = g_strdup_printf("%s/%u", files->drafts, files->all->len);
	file->before = replaced ? replaced->st_mode & 07777 : mode;
	file->mode = file->before & (mode | ~(mode_t)S_IRWXO);
	file->replaces = replaced != NULL;
	file->owner = replaced ? replaced->st_uid : (uid_t)-1;
	file->group = replaced ? replaced->st_gid : reader;
	g_ptr_array_add(files->all, file);
	return file->draft;
}

static bool
store_draft(const struct new_file *file, GError **error)
{
	int CLEANUP_CLOSE fd = open(file->draft, O_RDONLY | O_CLOEXEC);

	/* The owner first, since a change of that may take away bits of the mode. */
	return (fd >= 0 &&
		((file->owner == (uid_t)-1 && file->group == (gid_t)-1) ||
		 fchown(fd, file->owner, file->group) == 0) &&
		fchmod(fd, file->mode) == 0 && fsync(fd) == 0) ||
	       failure_errno(error, errno, "%s can't be written", file->path);
}

/* link() and not rename(), because that would replace a file that has just got this name. */
static bool
name_draft(struct new_file *file, GError **error)
{
	const int r =
		file->replaces ? rename(file->draft, file->path) : link(file->draft, file->path);

	if (r < 0)
		return failure_errno(error, errno, "%s can't be made", file->path);
	file->made = true;
	return true;
}

static bool
new_files_sync_directory(const char *path, GError **error)
{
	g_autofree char *directory = g_path_get_dirname(path);
	int CLEANUP_CLOSE fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* EINVAL: this file system has no such thing. */
	return (fd >= 0 && (fsync(fd) == 0 || errno == EINVAL)) ||
	       failure_errno(error, errno, "%s can't be stored", directory);
}

bool
new_files_make(struct new_files *files, GError **error)
{
	bool good = true;

	for (guint i = 0; good && i < files->all->len; i++)
		good = store_draft(g_ptr_array_index(files->all, i), error);
	for (guint i = 0; good && i < files->all->len; i++)
		good = name_draft(g_ptr_array_index(files->all, i), error);
	for (guint i = 0; good && i < files->all->len; i++)
		good = new_files_sync_directory(
			((struct new_file *)g_ptr_array_index(files->all, i))->path, error);
	if (good)
		g_ptr_array_set_size(files->directories, 0);
	for (guint i = 0; !good && i < files->all->len; i++) {
		const struct new_file *file = g_ptr_array_index(files->all, i);

		if (file->made && !file->replaces)
			unlink(file->path);
	}
	return good;
}

void
new_files_print(const struct new_files *files)
{
	for (guint i = 0; i < files->all->len; i++) {
		const struct new_file *file = g_ptr_array_index(files->all, i);

		puts(file->path);
		if (file->mode != file->before)
			log_warning(
				"%s: every user of this machine could use this file (mode %03o): its mode is now %03o",
				file->path, (unsigned int)file->before, (unsigned int)file->mode);
	}
}

void
new_files_end(struct new_files *files)
{
	if (files->lock >= 0)
		close(files->lock);
	g_ptr_array_unref(files->all);
	if (files->drafts)
		rmdir(files->drafts);
	g_free(files->drafts);
	for (guint i = 0; i < files->directories->len; i++)
		rmdir(g_ptr_array_index(files->directories, i));
	g_ptr_array_unref(files->directories);
	new_files_set_signals(SIG_UNBLOCK);
}
