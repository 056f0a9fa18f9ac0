/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/attach_turn.h"

#include "tool/device/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Whether the path still leads to the file, which its last holder removes. */
static bool
turn_is_there(int fd, const char *path)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
	       ours.st_dev == there.st_dev;
}

static bool
turn_wait_for(int fd, int operation)
{
	int r;

	do
		r = flock(fd, operation);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

void
attach_turn_take(struct attach_turn *turn, const char *directory, const struct stat *image,
		 bool alone)
{
	const struct image_identity own = image_file_identity(image);

	*turn = (struct attach_turn){
		.fd = -1,
		.path = g_strdup_printf("%s/%u:%u-%" G_GUINT64_FORMAT ".turn", directory,
					major(own.device), minor(own.device), (guint64)own.inode),
	};
	g_mkdir_with_parents(directory, 0700);
	do {
		if (turn->fd >= 0)
			close(turn->fd);
		turn->fd = open(turn->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	} while (turn->fd >= 0 && turn_wait_for(turn->fd, alone ? LOCK_EX : LOCK_SH) &&
		 !turn_is_there(turn->fd, turn->path));
}

void
attach_turn_end(struct attach_turn *turn)
{
	/* The last holder removes the file; a process that waits for it makes a new one. */
	if (turn->fd >= 0 && flock(turn->fd, LOCK_EX | LOCK_NB) == 0 &&
	    turn_is_there(turn->fd, turn->path))
		unlink(turn->path);
	if (turn->fd >= 0)
		close(turn->fd);
	g_free(turn->path);
	*turn = (struct attach_turn){.fd = -1};
}
