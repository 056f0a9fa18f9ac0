/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers of requests, in each form.
 */
#include "nbd/request.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct nbd_session session;

static void
begin(void)
{
	session = (struct nbd_session){.form = NBD_FORM_STRUCTURED};
}

static const uint8_t compact[] = "\x25\x60\x95\x13"
				 "\x00\x05"
				 "\x00\x06"
				 "\x01\x02\x03\x04\x05\x06\x07\x08"
				 "\x11\x12\x13\x14\x15\x16\x17\x18"
				 "\xf1\xf2\xf3\xf4";
static const uint8_t extended[] = "\x21\xe4\x1c\x71"
				  "\x00\x05"
				  "\x00\x06"
				  "\x01\x02\x03\x04\x05\x06\x07\x08"
				  "\x11\x12\x13\x14\x15\x16\x17\x18"
				  "\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8";

static void
assert_decoded(const uint8_t *bytes, uint64_t length)
{
	struct nbd_request request;

	ck_assert_int_eq(nbd_request_decode(&session, bytes, &request), 0);
	ck_assert_uint_eq(request.flags, 5);
	ck_assert_uint_eq(request.type, 6);
	ck_assert_uint_eq(request.cookie, UINT64_C(0x0102030405060708));
	ck_assert_uint_eq(request.offset, UINT64_C(0x1112131415161718));
	ck_assert_uint_eq(request.length, length);
}

START_TEST(compact_header_is_decoded)
{
	session.form = _i ? NBD_FORM_STRUCTURED : NBD_FORM_SIMPLE;
	ck_assert_uint_eq(nbd_request_size(&session), 28);
	assert_decoded(compact, 0xf1f2f3f4);
}
END_TEST

START_TEST(extended_header_is_decoded)
{
	session.form = NBD_FORM_EXTENDED;
	ck_assert_uint_eq(nbd_request_size(&session), 32);
	assert_decoded(extended, UINT64_C(0xf1f2f3f4f5f6f7f8));
}
END_TEST

START_TEST(header_of_the_other_form_is_out_of_step)
{
	struct nbd_request request;

	for (int form = NBD_FORM_SIMPLE; form <= NBD_FORM_EXTENDED; form++) {
		session.form = form;
		ck_assert_int_eq(nbd_request_decode(&session,
						    form == NBD_FORM_EXTENDED ? compact : extended,
						    &request),
				 -EPROTO);
	}
}
END_TEST

START_TEST(every_wrong_bit_of_the_magic_is_out_of_step)
{
	struct nbd_request request;
	uint8_t bytes[NBD_REQUEST_HEADER_MAX];

	for (int form = NBD_FORM_SIMPLE; form <= NBD_FORM_EXTENDED; form++) {
		session.form = form;
		for (unsigned int bit = 0; bit < 32; bit++) {
			memcpy(bytes, form == NBD_FORM_EXTENDED ? extended : compact,
			       nbd_request_size(&session));
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			ck_assert_int_eq(nbd_request_decode(&session, bytes, &request), -EPROTO);
		}
	}
}
END_TEST

START_TEST(historic_magics_are_out_of_step)
{
	static const uint32_t magics[] = {0x12560953, 0x25609514, 0x67446698, 0x668e33ef,
					  0x6e8a278c};
	struct nbd_request request;
	uint8_t bytes[NBD_REQUEST_HEADER_MAX] = {0};

	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		wire_store32(bytes, magics[i]);
		ck_assert_int_eq(nbd_request_decode(&session, bytes, &request), -EPROTO);
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "decode", .begin = begin},
		{.test = compact_header_is_decoded, .last = 2},
		{.test = extended_header_is_decoded},
		{.test = header_of_the_other_form_is_out_of_step},
		{.test = every_wrong_bit_of_the_magic_is_out_of_step},
		{.test = historic_magics_are_out_of_step},
		{0},
	};

	return suite_run("nbd_header", cases);
}
