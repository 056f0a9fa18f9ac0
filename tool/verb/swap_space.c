/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/swap_space.h"

#include "tool/failure.h"
#include "tool/system_file.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define RESERVE "/proc/sys/vm/min_free_kbytes"

/*
 * KiB; what the kernel has by itself with 4 GiB of memory (with transparent huge pages, that is
 * from 512 MiB on, it has more).  Half of the reserve is for the kernel
 * alone, which sends the swapped pages to the server from there.  When that half is used up, the
 * server waits for memory before it can send a reply, and the kernel waits for the reply: with
 * 2 MiB, a machine of 320 MiB hung.  A program can't have its socket use that half.
 */
#define RESERVE_LEAST 8192

/* ---- the kernel's reserve of memory */

static bool
raise_reserve(uint64_t now, GError **error)
{
	g_autofree char *path = system_file_path(RESERVE),
			*value = g_strdup_printf("%d\n", RESERVE_LEAST);
	int CLEANUP_CLOSE fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		return failure_errno(error, errno, "--swap=raise: vm.min_free_kbytes can't be set");
	log_warning("vm.min_free_kbytes is %d now; it was %" PRIu64
		    ".  To keep the new value after a restart of this machine, write "
		    "\"vm.min_free_kbytes = %d\" to a file in /etc/sysctl.d",
		    RESERVE_LEAST, now, RESERVE_LEAST);
	return true;
}

static bool
check_reserve(const struct attach_options *options, bool remote, GError **error)
{
	g_autofree char *text = system_file_read(RESERVE);
	guint64 now;

	/* It is unknown in a container without /proc/sys. */
	if (!text || !g_ascii_string_to_unsigned(text, 10, 0, G_MAXUINT64, &now, NULL) ||
	    now >= RESERVE_LEAST)
		return true;
	if (options->swap == SWAP_RAISE)
		return raise_reserve(now, error);
	if (remote)
		return true;
	if (!options->force)
		return failure(
			error, ENOMEM,
			"--swap: the kernel's reserve of memory, vm.min_free_kbytes, is %" PRIu64
			", and swapping to an image of this machine needs %d, or the machine may "
			"hang: give --swap=raise, or run sysctl -w vm.min_free_kbytes=%d",
			now, RESERVE_LEAST, RESERVE_LEAST);
	log_warning("--swap: the kernel's reserve of memory, vm.min_free_kbytes, is %" PRIu64
		    " instead of %d, because of --force: the machine may hang",
		    now, RESERVE_LEAST);
	return true;
}

/* ---- the image */

/* How many bytes of it the file system must allocate when they are written: holes, and extents that
 * were allocated but never written.  0 if that is unknown. */
static uint64_t
unwritten_bytes(int fd, off_t from, off_t end)
{
	uint64_t unwritten = 0;

	while (from < end) {
		off_t data = lseek(fd, from, SEEK_DATA), hole;

		if (data < 0 && errno != ENXIO)
			return 0;
		if (data < 0 || data > end)
			data = end;
		unwritten += (uint64_t)(data - from);
		hole = data < end ? lseek(fd, data, SEEK_HOLE) : end;
		if (hole < 0)
			return 0;
		from = hole;
	}
	return unwritten;
}

static void
look_at_image(const struct attach_options *options, const char *place)
{
	int CLEANUP_CLOSE fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END), from = (off_t)options->offset;
	uint64_t size, unwritten;

	/* Whoever opens it for the device tells why it can't be opened. */
	if (end <= from)
		return;
	size = (uint64_t)(end - from);
	if (options->sizelimit)
		size = MIN(size, options->sizelimit);
	unwritten = unwritten_bytes(fd, from, from + (off_t)size);
	if (unwritten > 0)
		log_warning(
			"%s: %" PRIu64 " of %" PRIu64
			" KiB were never written.  The file system needs memory to allocate them, "
			"and the machine may hang when it swaps out to them: write the image from "
			"end to end before it is attached (dd if=/dev/zero)",
			place, (unwritten + 1023) >> 10, size >> 10);
}

bool
swap_space_prepare(const struct attach_options *options, const char *place, bool remote,
		   GError **error)
{
	if (options->swap == SWAP_OFF)
		return true;
	if (!check_reserve(options, remote, error))
		return false;
	if (!remote)
		look_at_image(options, place);
	return true;
}
