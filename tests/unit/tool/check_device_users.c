/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The users of a device, in a recorded tree.
 */
#include "tool/device/device_users.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "22 27 0:21 / /proc rw,relatime - proc proc rw\n"

static void
assert_users_of(const char *name, const char *wanted)
{
	struct device *device = device_read(name, NULL);
	char *users;

	ck_assert_ptr_nonnull(device);
	users = device_users(device);
	if (wanted)
		ck_assert_pstr_eq(users, wanted);
	else
		ck_assert_msg(!users, "%s", users);
	g_free(users);
	device_free(device);
}

/* A process with one open file. */
static void
add_process(int pid, const char *name, const char *open_file)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%d/comm", pid);
	tree_write(path, name);
	snprintf(path, sizeof(path), "proc/%d/exe", pid);
	tree_link(path, "/bin/true");
	snprintf(path, sizeof(path), "proc/%d/fd/3", pid);
	tree_link(path, open_file);
	snprintf(path, sizeof(path), "proc/%d/ns/mnt", pid);
	tree_link(path, "mnt:[4026531841]");
}

START_TEST(nobody_is_told_as_nobody)
{
	assert_users_of("nbd0", NULL);
	assert_users_of("nbd1", NULL);
}
END_TEST

START_TEST(mount_is_known_by_its_number)
{
	tree_write("proc/self/mountinfo", HEAD
		   "30 27 43:1 / /mnt/my\\040disk rw,relatime - ext4 /dev/disk/by-label/my rw\n");
	assert_users_of("nbd0", "/dev/nbd0p1 is mounted on /mnt/my disk");
	assert_users_of("nbd1", NULL);
}
END_TEST

START_TEST(mount_with_a_number_of_its_own_is_known_by_its_source)
{
	tree_write(
		"proc/self/mountinfo", HEAD
		"31 27 0:45 / /srv rw,relatime shared:1 master:2 - btrfs /dev/nbd1 rw,space_cache=v2\n");
	assert_users_of("nbd1", "/dev/nbd1 is mounted on /srv");
	assert_users_of("nbd10", NULL);
}
END_TEST

START_TEST(same_names_elsewhere_are_not_the_device)
{
	tree_write("proc/self/mountinfo", HEAD "32 27 0:46 / /net rw - nfs4 server:/dev/nbd1 rw\n"
					       "33 27 0:47 /nbd1 /x rw - tmpfs nbd1 rw\n");
	tree_write("proc/swaps", "Filename\n/srv/dev/nbd1  file 1 0 -2\n");
	add_process(70, "cat\n", "/srv/nbd1");
	assert_users_of("nbd1", NULL);
}
END_TEST

START_TEST(mount_in_a_container_is_found_once)
{
	add_process(70, "init\n", "/dev/null");
	tree_link("proc/70/ns/mnt", "mnt:[4026532000]");
	tree_write("proc/70/mountinfo", HEAD "90 80 43:32 / /inside rw - ext4 /dev/nbd1 rw\n");
	add_process(71, "worker\n", "/dev/null");
	tree_link("proc/71/ns/mnt", "mnt:[4026532000]");
	tree_write("proc/71/mountinfo", HEAD "90 80 43:32 / /inside rw - ext4 /dev/nbd1 rw\n");
	assert_users_of("nbd1", "/dev/nbd1 is mounted on /inside");
	/* Also when several have it. */
	add_process(72, "init\n", "/dev/null");
	tree_link("proc/72/ns/mnt", "mnt:[4026532001]");
	tree_write("proc/72/mountinfo", HEAD "90 80 43:32 / /inside rw - ext4 /dev/nbd1 rw\n");
	assert_users_of("nbd1", "/dev/nbd1 is mounted on /inside");
}
END_TEST

START_TEST(swap_is_found)
{
	tree_write("proc/swaps",
		   "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
		   "/dev/nbd0p2                             partition\t1048572\t\t0\t\t-2\n");
	assert_users_of("nbd0", "/dev/nbd0p2 is swap space");
}
END_TEST

START_TEST(devices_made_of_it_are_found)
{
	tree_link("sys/block/nbd0/nbd0p1/holders/dm-0", "../../../../dm-0");
	tree_write("sys/block/dm-0/dm/name", "vg-root\n");
	tree_link("sys/block/nbd0/holders/md127", "../../../md127");
	tree_write("sys/block/loop0/loop/backing_file", "/dev/nbd0p10\n");
	assert_users_of(
		"nbd0",
		"/dev/md127 is made of /dev/nbd0; /dev/mapper/vg-root is made of /dev/nbd0p1; "
		"/dev/loop0 is made of /dev/nbd0p10");
}
END_TEST

START_TEST(process_that_has_it_open_is_named)
{
	add_process(77, "fio\n", "/dev/nbd0p2");
	add_process(78, "cat\n", "/dev/nbd10");
	assert_users_of("nbd0", "process 77 (fio) has /dev/nbd0p2 open");
	assert_users_of("nbd10", "process 78 (cat) has /dev/nbd10 open");
}
END_TEST

static void
assert_openers_of(const char *name, const char *wanted)
{
	struct device *device = device_read(name, NULL);
	char *openers = device_openers(device);

	ck_assert_pstr_eq(openers, wanted);
	g_free(openers);
	device_free(device);
}

START_TEST(openers_are_loops_and_processes)
{
	tree_write("proc/self/mountinfo", HEAD "30 27 43:0 / /mnt rw - ext4 /dev/nbd0 rw\n");
	tree_write("proc/swaps", "Filename\n/dev/nbd0p2 partition 1 0 -2\n");
	assert_openers_of("nbd0", NULL);
	tree_write("sys/block/loop0/loop/backing_file", "/dev/nbd0p10\n");
	add_process(76, "cat\n", "socket:[/dev/nbd0]");
	add_process(77, "fio\n", "/dev/nbd0p2");
	assert_openers_of(
		"nbd0",
		"/dev/loop0 is made of /dev/nbd0p10; process 77 (fio) has /dev/nbd0p2 open");
}
END_TEST

START_TEST(who_attached_it_and_who_asks_do_not_count)
{
	add_process(830, "qemu-nbd\n", "/dev/nbd1");
	add_process(getpid(), "nbdloop\n", "/dev/nbd1");
	assert_users_of("nbd1", NULL);
}
END_TEST

START_TEST(many_users_are_counted)
{
	struct device *device = device_read("nbd1", NULL);
	char *users;

	for (int pid = 100; pid < 120; pid++)
		add_process(pid, "fio\n", "/dev/nbd1");
	users = device_users(device);
	ck_assert_ptr_nonnull(users);
	ck_assert_ptr_nonnull(strstr(users, "; and 10 more"));
	g_free(users);
	device_free(device);
}
END_TEST

static void
assert_keeper_of(const char *name, const char *wanted)
{
	struct device *device = device_read(name, NULL);
	char *keeper = device_keeper(device);

	ck_assert_pstr_eq(keeper, wanted);
	g_free(keeper);
	device_free(device);
}

START_TEST(keeper_is_who_still_has_it_open)
{
	/* The process has ended; another one may get its number. */
	assert_keeper_of("nbd1", NULL);
	add_process(830, "bash\n", "/dev/null");
	assert_keeper_of("nbd1", NULL);
	add_process(830, "qemu-nbd\n", "/dev/nbd1");
	assert_keeper_of("nbd1", "qemu-nbd");
	assert_keeper_of("nbd2", NULL);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "recorded",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = tree_begin},
		{.test = nobody_is_told_as_nobody},
		{.test = mount_is_known_by_its_number},
		{.test = mount_with_a_number_of_its_own_is_known_by_its_source},
		{.test = same_names_elsewhere_are_not_the_device},
		{.test = mount_in_a_container_is_found_once},
		{.test = swap_is_found},
		{.test = devices_made_of_it_are_found},
		{.test = process_that_has_it_open_is_named},
		{.test = openers_are_loops_and_processes},
		{.test = who_attached_it_and_who_asks_do_not_count},
		{.test = many_users_are_counted},
		{.test = keeper_is_who_still_has_it_open},
		{0},
	};

	return suite_run("device_users", cases);
}
