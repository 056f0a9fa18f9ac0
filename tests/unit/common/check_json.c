/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The JSON writer.
 */
#include "common/json.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct json json;
static FILE *out;
static char *text;
static size_t text_size;

static void
text_begin(void)
{
	out = open_memstream(&text, &text_size);
	ck_assert_ptr_nonnull(out);
	json_init(&json, out);
}

static void
text_end(void)
{
	if (out)
		fclose(out);
	free(text);
}

static void
assert_written(const char *expected)
{
	ck_assert(json_text_close(out, &text, &text_size));
	out = NULL;
	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(text_size, strlen(expected));
}

START_TEST(empty_object_and_array_are_brackets)
{
	json_object_begin(&json, NULL);
	json_array_begin(&json, "a");
	json_array_end(&json);
	json_object_begin(&json, "o");
	json_object_end(&json);
	json_array_begin(&json, "b");
	json_array_end(&json);
	json_object_end(&json);
	assert_written("{\"a\":[],\"o\":{},\"b\":[]}");
}
END_TEST

START_TEST(commas_stand_between_values_at_every_depth)
{
	json_object_begin(&json, NULL);
	json_put_string(&json, "program", "p");
	json_array_begin(&json, "exports");
	for (int i = 0; i < 2; i++) {
		json_object_begin(&json, NULL);
		json_put_uint(&json, "size", 1);
		json_object_begin(&json, "counters");
		json_put_uint(&json, "reads", 2);
		json_put_uint(&json, "writes", 3);
		json_object_end(&json);
		json_put_bool(&json, "poll", false);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_put_bool(&json, "end", true);
	json_object_end(&json);
	assert_written("{\"program\":\"p\",\"exports\":["
		       "{\"size\":1,\"counters\":{\"reads\":2,\"writes\":3},\"poll\":false},"
		       "{\"size\":1,\"counters\":{\"reads\":2,\"writes\":3},\"poll\":false}"
		       "],\"end\":true}");
}
END_TEST

START_TEST(array_elements_have_no_keys)
{
	json_array_begin(&json, NULL);
	json_put_string(&json, NULL, "a");
	json_put_uint(&json, NULL, 7);
	json_put_bool(&json, NULL, true);
	json_put_string(&json, NULL, NULL);
	json_array_begin(&json, NULL);
	json_array_end(&json);
	json_array_end(&json);
	assert_written("[\"a\",7,true,null,[]]");
}
END_TEST

START_TEST(values_written_elsewhere_join_an_array)
{
	json_array_begin(&json, NULL);
	json_put_values(&json, "");
	json_put_values(&json, "{\"id\":1},{\"id\":2}");
	json_put_values(&json, NULL);
	json_put_values(&json, "3");
	json_array_end(&json);
	assert_written("[{\"id\":1},{\"id\":2},3]");
}
END_TEST

START_TEST(null_string_is_null_and_empty_string_is_not)
{
	json_object_begin(&json, NULL);
	json_put_string(&json, "a", NULL);
	json_put_string(&json, "b", "");
	json_object_end(&json);
	assert_written("{\"a\":null,\"b\":\"\"}");
}
END_TEST

START_TEST(largest_number_is_exact)
{
	json_put_uint(&json, NULL, UINT64_MAX);
	assert_written("18446744073709551615");
}
END_TEST

START_TEST(quotes_backslashes_and_control_characters_are_escaped)
{
	json_put_string(&json, NULL, "a\"b\\c/d\ne\tf\rg\x01h\x1fi\x7fj");
	assert_written("\"a\\\"b\\\\c/d\\ne\\tf\\rg\\u0001h\\u001fi\\u007fj\"");
}
END_TEST

START_TEST(key_is_escaped_too)
{
	json_object_begin(&json, NULL);
	json_put_bool(&json, "a\"b", true);
	json_object_end(&json);
	assert_written("{\"a\\\"b\":true}");
}
END_TEST

START_TEST(utf8_is_kept)
{
	/* The first and last character of each length, and those around the surrogates. */
	static const char characters[] = "\xc2\x80"
					 "\xdf\xbf"
					 "\xe0\xa0\x80"
					 "\xed\x9f\xbf"
					 "\xee\x80\x80"
					 "\xef\xbf\xbf"
					 "\xf0\x90\x80\x80"
					 "\xf4\x8f\xbf\xbf";
	char expected[64];

	snprintf(expected, sizeof(expected), "\"%s\"", characters);
	json_put_string(&json, NULL, characters);
	assert_written(expected);
}
END_TEST

#define R "\xef\xbf\xbd"

START_TEST(bytes_that_are_not_utf8_are_replaced)
{
	static const struct {
		const char *bytes, *expected;
	} rows[] = {
		{"a\xff"
		 "b",
		 "\"a" R "b\""},
		{"\x80", "\"" R "\""},       /* continuation alone */
		{"\xc0\xaf", "\"" R R "\""}, /* overlong '/' */
		{"\xc1\xbf", "\"" R R "\""},
		{"\xe0\x9f\xbf", "\"" R R R "\""},       /* overlong, 3 bytes */
		{"\xf0\x8f\xbf\xbf", "\"" R R R R "\""}, /* overlong, 4 bytes */
		{"\xed\xa0\x80", "\"" R R R "\""},       /* surrogate */
		{"\xf4\x90\x80\x80", "\"" R R R R "\""}, /* past U+10FFFF */
		{"\xf5\x80\x80\x80", "\"" R R R R "\""},
		{"\xc3(", "\"" R "(\""}, /* lead without the rest */
		{"\xe2\x82(", "\"" R R "(\""},
		{"\xf0\x9f\x98(", "\"" R R R "(\""},
		{"\xc3\"", "\"" R "\\\"\""}, /* can't swallow a quote */
		{"\xc3", "\"" R "\""},       /* cut by the end */
		{"\xe2\x82", "\"" R R "\""},
		{"\xf0\x9f\x98", "\"" R R R "\""},
	};
	char expected[512] = "[";

	json_array_begin(&json, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_put_string(&json, NULL, rows[i].bytes);
		strcat(strcat(expected, i ? "," : ""), rows[i].expected);
	}
	json_array_end(&json);
	assert_written(strcat(expected, "]"));
}
END_TEST

/* The end of the character at AT, an escape or UTF-8; NULL if JSON can't have it so. */
static const unsigned char *
after_character(const unsigned char *at)
{
	if (*at < 0x20)
		return NULL;
	if (*at == '\\')
		return at[1] && strchr("\"\\nrtu", at[1]) ? at + 2 : NULL;
	if (*at >= 0xc2 && *at <= 0xdf)
		return (at[1] & 0xc0) == 0x80 ? at + 2 : NULL;
	if (*at >= 0x80)
		return strncmp((const char *)at, R, 3) == 0 ? at + 3 : NULL;
	return at + 1;
}

START_TEST(no_byte_sequence_makes_a_second_line_or_invalid_utf8)
{
	char bytes[4] = {0}, quoted;
	const unsigned char *at;

	/* Every pair of bytes; what comes out is then checked byte by byte. */
	json_array_begin(&json, NULL);
	for (int first = 1; first < 256; first++) {
		for (int second = 1; second < 256; second++) {
			bytes[0] = (char)first;
			bytes[1] = (char)second;
			json_put_string(&json, NULL, bytes);
		}
	}
	json_array_end(&json);
	ck_assert_int_eq(fclose(out), 0);
	out = NULL;

	/* One assertion for all bytes: each one is a message to the process that runs the test. */
	quoted = 0;
	at = (const unsigned char *)text;
	while (at && *at) {
		quoted ^= *at == '"';
		at = after_character(at);
	}
	ck_assert_ptr_nonnull(at);
	ck_assert(!quoted);
}
END_TEST

/* A stream without memory refuses bytes, as a full disk does. */
START_TEST(text_that_is_cut_is_none)
{
	FILE *full = fopen("/dev/full", "w");
	char *cut = strdup("[");
	size_t size = 1;

	ck_assert_ptr_nonnull(full);
	setvbuf(full, NULL, _IONBF, 0);
	ck_assert(!json_text_close(full, &cut, &size));
	ck_assert_ptr_null(cut);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "writer", .begin = text_begin, .end = text_end},
		{.test = empty_object_and_array_are_brackets},
		{.test = commas_stand_between_values_at_every_depth},
		{.test = array_elements_have_no_keys},
		{.test = values_written_elsewhere_join_an_array},
		{.test = null_string_is_null_and_empty_string_is_not},
		{.test = largest_number_is_exact},
		{.test = quotes_backslashes_and_control_characters_are_escaped},
		{.test = key_is_escaped_too},
		{.test = utf8_is_kept},
		{.test = bytes_that_are_not_utf8_are_replaced},
		{.test = no_byte_sequence_makes_a_second_line_or_invalid_utf8},
		{.test = text_that_is_cut_is_none},
		{0},
	};

	return suite_run("json", cases);
}
