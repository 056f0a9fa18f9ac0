/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/image_use.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* ---- files of /sys and /proc */

/* Reads the first line of a file, without its newline. Returns false if there is none. */
static bool
read_line(const char *directory, const char *name, char line[PATH_MAX])
{
	char path[PATH_MAX + NAME_MAX + 2];
	bool got;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	got = fgets(line, PATH_MAX, f) != NULL;
	fclose(f);
	if (got)
		line[strcspn(line, "\n")] = '\0';
	return got;
}

static uint64_t
use_read_number(const char *directory, const char *name)
{
	char line[PATH_MAX];

	return read_line(directory, name, line) ? strtoull(line, NULL, 10) : 0;
}

static bool
read_device(const char *directory, dev_t *device)
{
	unsigned int numbers[2];
	char line[PATH_MAX];

	if (!read_line(directory, "dev", line) ||
	    sscanf(line, "%u:%u", &numbers[0], &numbers[1]) != 2)
		return false;
	*device = makedev(numbers[0], numbers[1]);
	return true;
}

static bool
is_node_of(const char *path, dev_t device)
{
	struct stat st;

	return strncmp(path, "/dev/", 5) == 0 && stat(path, &st) == 0 && S_ISBLK(st.st_mode) &&
	       st.st_rdev == device;
}

/* ---- uses of a block device */

/* A line of mountinfo is "36 35 8:1 / /mnt rw,noatime - ext4 /dev/sda1 rw". File systems such as
 * Btrfs have numbers of their own there, but name the device. */
static bool
is_mount_of(const char *line, dev_t device, char where[PATH_MAX])
{
	const char *source = strstr(line, " - ");
	unsigned int numbers[2];
	char path[PATH_MAX];

	if (sscanf(line, "%*d %*d %u:%u %*s %4095s", &numbers[0], &numbers[1], where) != 3)
		return false;
	if (makedev(numbers[0], numbers[1]) == device)
		return true;
	return source && sscanf(source, " - %*s %4095s", path) == 1 && is_node_of(path, device);
}

static bool
find_mount(const char *root, const char *process, dev_t device, char where[PATH_MAX])
{
	char path[PATH_MAX], *CLEANUP_FREE line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/%s/mountinfo", root, process);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && getline(&line, &room, f) > 0)
		found = is_mount_of(line, device, where);
	fclose(f);
	return found;
}

static bool
is_part_of(const struct image_part *part, dev_t device, ino_t inode, dev_t node)
{
	return part->inode == 0 ? node == part->device
				: inode == part->inode && device == part->device;
}

static bool
leads_to(const char *path, const struct image_part *part)
{
	struct stat st;

	return stat(path, &st) == 0 &&
	       is_part_of(part, st.st_dev, st.st_ino, S_ISBLK(st.st_mode) ? st.st_rdev : 0);
}

/* Ends a word of the kernel's at its blank, and replaces its escapes: a blank is \040. */
static void
mount_word_decode(char *word)
{
	char *to = word;
	unsigned int code;

	for (word[strcspn(word, " \t\n")] = '\0'; *word; word++) {
		if (sscanf(word, "\\%3o", &code) == 1) {
			*to++ = (char)code;
			word += 3;
		} else {
			*to++ = *word;
		}
	}
	*to = '\0';
}

/* Returns whether the file, or the device itself, is swap space. */
static bool
is_swap(const char *root, const struct image_part *part)
{
	char path[PATH_MAX], line[PATH_MAX];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/swaps", root);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		mount_word_decode(line);
		found = line[0] == '/' && leads_to(line, part);
	}
	fclose(f);
	return found;
}

/* Finds a device that is made of this one: the first name in holders/. */
static bool
use_find_holder(const char *directory, char name[NAME_MAX + 1])
{
	char path[PATH_MAX + 16];
	struct dirent *entry;
	bool found = false;
	DIR *holders;

	snprintf(path, sizeof(path), "%s/holders", directory);
	holders = opendir(path);
	if (!holders)
		return false;
	while (!found && (entry = readdir(holders)) != NULL) {
		found = entry->d_name[0] != '.';
		if (found)
			snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
	}
	closedir(holders);
	return found;
}

/* Describes the use of a device or partition, by its directory in /sys: "is mounted on /mnt". */
static bool
describe_one(const char *root, const char *directory, char text[IMAGE_USE_TEXT])
{
	char where[PATH_MAX], holder[NAME_MAX + 1];
	dev_t device;

	if (!read_device(directory, &device))
		return false;
	if (find_mount(root, "self", device, where) || find_mount(root, "1", device, where))
		snprintf(text, IMAGE_USE_TEXT, "is mounted on %.400s", where);
	else if (is_swap(root, &(struct image_part){.device = device}))
		snprintf(text, IMAGE_USE_TEXT, "is swap space");
	else if (use_find_holder(directory, holder))
		snprintf(text, IMAGE_USE_TEXT, "is a part of /dev/%s", holder);
	else
		return false;
	return true;
}

/* The same for a whole device with its partitions: "has /dev/sda1, which is mounted on /mnt". */
static bool
use_describe(const char *root, const char *directory, char text[IMAGE_USE_TEXT])
{
	char path[2 * PATH_MAX], line[PATH_MAX], part[IMAGE_USE_TEXT];
	struct dirent *entry;
	bool found = describe_one(root, directory, text);
	DIR *entries = found ? NULL : opendir(directory);

	while (entries && !found && (entry = readdir(entries)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		found = read_line(path, "partition", line) && describe_one(root, path, part);
		if (found)
			snprintf(text, IMAGE_USE_TEXT, "has /dev/%.40s, which %.440s",
				 entry->d_name, part);
	}
	if (entries)
		closedir(entries);
	return found;
}

static bool
find_device_use(const char *root, dev_t device, struct image_use *use)
{
	char directory[PATH_MAX], text[IMAGE_USE_TEXT];

	snprintf(directory, sizeof(directory), "%s/sys/dev/block/%u:%u", root, major(device),
		 minor(device));
	if (!use_describe(root, directory, text))
		return false;
	*use = (struct image_use){.writes = true, .held = true};
	snprintf(use->text, sizeof(use->text), "it %.500s", text);
	return true;
}

/* ---- loop devices */

/* Unpacks a device number from the form that the kernel gives to programs. */
static dev_t
device_unpack(uint64_t device)
{
	return makedev((unsigned int)(device >> 8 & 0xfff),
		       (unsigned int)((device & 0xff) | (device >> 12 & 0xfff00)));
}

/* Opens a loop device to ask its driver. A sandbox may forbid to read the device, but not the
 * access mode 3, which allows nothing but ioctl() (open(2)). Returns a descriptor, or -1 with
 * errno. */
static int
open_to_ask(const char *root, const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/dev/%s", root, name);
	flags |= O_NONBLOCK | O_CLOEXEC;
	fd = open(path, O_RDONLY | flags);
	return fd < 0 && errno == EACCES ? open(path, 3 | flags) : fd;
}

/* Returns whether the loop device is made of the file or device. The driver knows that file even if
 * it was renamed; if the loop device has no node in /dev, we must believe the name. */
static bool
is_made_of(const char *root, const char *name, const char *directory, const struct image_part *part)
{
	char backing[PATH_MAX];
	struct loop_info64 info = {0};
	int CLEANUP_CLOSE fd = -1;

	/* Most loop devices are attached to no file. */
	if (!read_line(directory, "loop/backing_file", backing))
		return false;
	fd = open_to_ask(root, name, 0);
	if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 &&
	    is_part_of(part, device_unpack(info.lo_device), (ino_t)info.lo_inode,
		       device_unpack(info.lo_rdevice)))
		return true;
	/* Not all kernels give the number of a block device. */
	if (fd >= 0 && info.lo_inode && part->inode)
		return false;
	return leads_to(backing, part);
}

static bool
loop_overlaps(const char *directory, const struct image_part *part)
{
	uint64_t offset = use_read_number(directory, "loop/offset"),
		 size = use_read_number(directory, "size") * 512;

	return offset < part->end && part->offset < offset + size;
}

/* Returns whether a program or file system has claimed the device (O_EXCL), in any namespace. */
static bool
device_is_claimed(const char *root, const char *name)
{
	int CLEANUP_CLOSE fd = open_to_ask(root, name, O_EXCL);

	return fd < 0 && errno == EBUSY;
}

static bool
look_at_loop(const char *root, const char *name, const struct image_part *part,
	     struct image_use *use)
{
	char directory[PATH_MAX], text[IMAGE_USE_TEXT];

	snprintf(directory, sizeof(directory), "%s/sys/block/%s", root, name);
	if (!is_made_of(root, name, directory, part) || !loop_overlaps(directory, part))
		return false;
	*use = (struct image_use){.writes = use_read_number(directory, "ro") == 0};
	snprintf(use->device, sizeof(use->device), "%.60s", name);
	use->held = use_describe(root, directory, text);
	if (use->held)
		snprintf(use->text, sizeof(use->text), "/dev/%.60s is made of it, and %.400s", name,
			 text);
	else
		snprintf(use->text, sizeof(use->text), "/dev/%.60s is made of it", name);
	/* A writable loop device is reason enough without that. */
	if (!use->held && !use->writes)
		use->held = device_is_claimed(root, name);
	return true;
}

static int
use_weight(const struct image_use *use)
{
	return 2 * use->writes + use->held;
}

static bool
find_loop(const char *root, const struct image_part *part, struct image_use *use)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *entries;

	snprintf(path, sizeof(path), "%s/sys/block", root);
	entries = opendir(path);
	if (!entries)
		return false;
	while ((entry = readdir(entries)) != NULL) {
		struct image_use one;

		if (strncmp(entry->d_name, "loop", 4) != 0 ||
		    !look_at_loop(root, entry->d_name, part, &one))
			continue;
		if (!found || use_weight(&one) > use_weight(use))
			*use = one;
		found = true;
	}
	closedir(entries);
	return found;
}

bool
image_use_find(const char *root, const struct image_part *part, struct image_use *use)
{
	if (part->inode == 0 && find_device_use(root, part->device, use))
		return true;
	if (part->inode != 0 && is_swap(root, part)) {
		*use = (struct image_use){.text = "it is swap space", .writes = true, .held = true};
		return true;
	}
	return find_loop(root, part, use);
}
