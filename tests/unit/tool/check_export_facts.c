/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which other export can take the place of a device's.
 */
#include "tool/link/export_facts.h"

#include "nbd/protocol.h"
#include "tests/lib/suite.h"
#include "tool/failure.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#define WRITABLE  (NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_TRIM)
#define READ_ONLY (NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY)

START_TEST(facts_are_what_a_device_can_have)
{
	struct nbd_client_handshake handshake = {
		.size = 12345, .smallest_block = 65536, .flags = 0xffff};

	ck_assert_uint_eq(export_facts_of(&handshake).size, 12345);
	ck_assert_uint_eq(export_facts_of(&handshake).block_size, 4096);
	ck_assert_uint_eq(export_facts_of(&handshake).flags, 0x017f);
	handshake.smallest_block = 0;
	handshake.flags = 0;
	ck_assert_uint_eq(export_facts_of(&handshake).block_size, 512);
	ck_assert_uint_eq(export_facts_of(&handshake).flags, NBD_FLAG_HAS_FLAGS);
}
END_TEST

static const struct {
	struct export_facts device, other;
	const char *reason; /* NULL: it fits */
} pairs[] = {
	{{1 << 20, 4096, WRITABLE}, {1 << 20, 512, WRITABLE}, NULL},
	{{1 << 20, 4096, WRITABLE}, {(1 << 20) + 4095, 512, WRITABLE}, NULL},
	{{1 << 20, 512, WRITABLE}, {1 << 20, 512, WRITABLE | NBD_FLAG_SEND_WRITE_ZEROES}, NULL},
	{{1 << 20, 512, READ_ONLY}, {1 << 20, 512, WRITABLE}, NULL},
	{{1 << 20, 512, WRITABLE | NBD_FLAG_READ_ONLY}, {1 << 20, 512, READ_ONLY}, NULL},
	{{1 << 20, 512, WRITABLE},
	 {1 << 19, 512, WRITABLE},
	 "its export has 524288 bytes, and the device 1048576"},
	{{1 << 20, 512, WRITABLE},
	 {1 << 21, 512, WRITABLE},
	 "its export has 2097152 bytes, and the device 1048576"},
	{{1 << 20, 512, WRITABLE},
	 {1 << 20, 4096, WRITABLE},
	 "its export has blocks of 4096 bytes, and the device of 512"},
	{{1 << 20, 512, WRITABLE},
	 {1 << 20, 512, WRITABLE | NBD_FLAG_READ_ONLY},
	 "its export can only be read, and the device is writable"},
	{{1 << 20, 512, WRITABLE},
	 {1 << 20, 512, WRITABLE & ~NBD_FLAG_SEND_TRIM},
	 "its export doesn't know the command that the device uses: trim"},
	{{1 << 20, 512, WRITABLE},
	 {1 << 20, 512, WRITABLE & ~NBD_FLAG_SEND_FLUSH},
	 "its export doesn't know the command that the device uses: flush"},
	{{1 << 20, 512, WRITABLE & ~NBD_FLAG_SEND_FLUSH},
	 {1 << 20, 512, WRITABLE},
	 "its export needs flushes, and the device was attached without"},
	{{1 << 20, 512, WRITABLE | NBD_FLAG_CAN_MULTI_CONN},
	 {1 << 20, 512, WRITABLE},
	 "it doesn't allow several connections (multi-conn)"},
};

START_TEST(other_export_must_fit_the_device)
{
	GError *error = NULL;
	bool fits = export_facts_fit(&pairs[_i].device, &pairs[_i].other, &error);

	ck_assert_pstr_eq(error ? error->message : NULL, pairs[_i].reason);
	ck_assert(fits == !error);
	ck_assert(fits || failure_is(error, EINVAL));
	g_clear_error(&error);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "facts"},
		{.test = facts_are_what_a_device_can_have},
		{.test = other_export_must_fit_the_device, .last = G_N_ELEMENTS(pairs)},
		{0},
	};

	return suite_run("export_facts", cases);
}
