/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel's log tells of a device's connection, in a recorded tree.
 */
#include "tool/device/device_log.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include <check.h>

#define LOST  "3,339,7000000,-;block nbd0: Receive control failed (result -32)\n SUBSYSTEM=block\n"
#define BACK  "6,340,8000000,-;block nbd0: reconnected socket\n SUBSYSTEM=block\n"
#define ENDED "4,341,9000000,-;block nbd0: shutting down sockets\n"

static void
assert_loss(enum device_loss wanted, const char *text)
{
	gint64 when = 0;

	tree_write("dev/kmsg", text);
	ck_assert_int_eq(device_loss_read("nbd0", &when), wanted);
	if (wanted == DEVICE_LOST)
		ck_assert_int_eq(when, 7000000);
}

START_TEST(last_message_of_the_device_counts)
{
	assert_loss(DEVICE_LOST, LOST);
	assert_loss(DEVICE_LOSS_UNKNOWN, LOST BACK);
	assert_loss(DEVICE_LOST, BACK LOST);
	assert_loss(DEVICE_ENDED, LOST ENDED);
	assert_loss(DEVICE_LOST, ENDED LOST);
}
END_TEST

START_TEST(data_that_did_not_come_is_a_loss_too)
{
	assert_loss(DEVICE_LOST, "3,339,7000000,-;block nbd0: Receive data failed (result -104)\n");
}
END_TEST

START_TEST(other_devices_and_other_lines_do_not_count)
{
	assert_loss(DEVICE_LOSS_UNKNOWN, "");
	assert_loss(DEVICE_LOST, LOST "4,341,9000000,-;block nbd01: shutting down sockets\n"
				      "4,342,9000000,-;x: block nbd0: shutting down sockets\n");
	assert_loss(DEVICE_LOSS_UNKNOWN, "block nbd0: shutting down sockets\nx,y;block nbd0: "
					 "Receive control failed\n no line;");
}
END_TEST

START_TEST(log_that_may_not_be_read_tells_nothing)
{
	gint64 when = 0;

	ck_assert_int_eq(device_loss_read("nbd0", &when), DEVICE_LOSS_UNKNOWN);
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
		{.test = last_message_of_the_device_counts},
		{.test = data_that_did_not_come_is_a_loss_too},
		{.test = other_devices_and_other_lines_do_not_count},
		{.test = log_that_may_not_be_read_tells_nothing},
		{0},
	};

	return suite_run("device_log", cases);
}
