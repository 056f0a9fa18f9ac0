/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the control socket: the parser.
 */
#include "control/control_request.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[CONTROL_REQUEST_MAX];
static struct control_request request;

static int
parse(const char *text, const char **error)
{
	snprintf(line, sizeof(line), "%s", text);
	memset(&request, 0xaa, sizeof(request));
	return control_request_parse(line, &request, error);
}

static void
assert_parses(const char *text)
{
	const char *error = "untouched";

	ck_assert_msg(parse(text, &error) == 0, "'%s': %s", text, error);
}

/* The request is refused with a sentence that contains `hint`. */
static void
assert_refused(const char *text, const char *hint)
{
	const char *error = NULL;

	ck_assert_msg(parse(text, &error) == -EINVAL, "'%s' was accepted", text);
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strstr(error, hint), "'%s': '%s' doesn't tell '%s'", text, error, hint);
}

START_TEST(status_stands_alone)
{
	assert_parses("status");
	ck_assert_int_eq(request.verb, CONTROL_STATUS);
	ck_assert_ptr_null(request.export_name);
	assert_refused("status all", "nothing may follow");
	assert_refused("status export=a", "nothing may follow");
}
END_TEST

START_TEST(set_tells_on_from_off)
{
	assert_parses("set direct-io=on");
	ck_assert_int_eq(request.verb, CONTROL_SET);
	ck_assert(request.direct_io);
	ck_assert_ptr_null(request.export_name);
	assert_parses("set direct-io=off");
	ck_assert_int_eq(request.verb, CONTROL_SET);
	ck_assert(!request.direct_io);
	ck_assert_ptr_null(request.export_name);
	assert_parses("set direct-io=yes");
	ck_assert(request.direct_io);
	assert_parses("set direct-io=false export=a");
	ck_assert(!request.direct_io);
	ck_assert_str_eq(request.export_name, "a");
}
END_TEST

START_TEST(set_takes_an_export)
{
	assert_parses("set direct-io=on export=disk.img");
	ck_assert(request.direct_io);
	ck_assert_str_eq(request.export_name, "disk.img");
}
END_TEST

START_TEST(set_takes_rules)
{
	assert_parses("set allow=uid:1,psk:a%20b");
	ck_assert_int_eq(request.verb, CONTROL_SET_RULES);
	ck_assert_str_eq(request.allow, "uid:1,psk:a%20b");
	ck_assert_ptr_null(request.allow_write);
	ck_assert_ptr_null(request.export_name);
	assert_parses("set  allow-write=any  export= a b");
	ck_assert_int_eq(request.verb, CONTROL_SET_RULES);
	ck_assert_ptr_null(request.allow);
	ck_assert_str_eq(request.allow_write, "any");
	ck_assert_str_eq(request.export_name, " a b");
	assert_parses("set allow-write=uid:1 allow=any export=allow=x");
	ck_assert_str_eq(request.allow, "any");
	ck_assert_str_eq(request.allow_write, "uid:1");
	ck_assert_str_eq(request.export_name, "allow=x");
	assert_parses("set allow=");
	ck_assert_str_eq(request.allow, "");
}
END_TEST

START_TEST(set_takes_limits)
{
	assert_parses("set iops-limit=read:5,write:6");
	ck_assert_int_eq(request.verb, CONTROL_SET_LIMITS);
	ck_assert_str_eq(request.limits.iops, "read:5,write:6");
	ck_assert_ptr_null(request.limits.bandwidth);
	ck_assert_ptr_null(request.limits.connections);
	ck_assert_ptr_null(request.export_name);
	assert_parses("set connections-limit=4 bandwidth-limit=1M iops-limit=0 export=a b");
	ck_assert_int_eq(request.verb, CONTROL_SET_LIMITS);
	ck_assert_str_eq(request.limits.connections, "4");
	ck_assert_str_eq(request.limits.bandwidth, "1M");
	ck_assert_str_eq(request.limits.iops, "0");
	ck_assert_str_eq(request.export_name, "a b");
	assert_parses("set client-iops-limit=3 iops-limit=4 client-connections-limit=2");
	ck_assert_int_eq(request.verb, CONTROL_SET_LIMITS);
	ck_assert_str_eq(request.client_limits.iops, "3");
	ck_assert_str_eq(request.limits.iops, "4");
	ck_assert_str_eq(request.client_limits.connections, "2");
	ck_assert_ptr_null(request.client_limits.bandwidth);
	assert_refused("set client-iops-limit=5 client-iops-limit=5", "\"client-\" before");
	assert_refused("set iops-limit=5 iops-limit=5", "\"iops-limit=LIMIT\"");
	assert_refused("set iops-limit=5 allow=any", "\"iops-limit=LIMIT\"");
	assert_refused("set allow=any iops-limit=5", "\"iops-limit=LIMIT\"");
	assert_refused("set iops-limit=5 burst:6", "no blanks within a value");
}
END_TEST

START_TEST(disconnect_takes_rules)
{
	assert_parses("disconnect uid:1,psk:a");
	ck_assert_int_eq(request.verb, CONTROL_DISCONNECT);
	ck_assert_str_eq(request.clients, "uid:1,psk:a");
	ck_assert_ptr_null(request.export_name);
	assert_parses("disconnect any export=a b");
	ck_assert_str_eq(request.clients, "any");
	ck_assert_str_eq(request.export_name, "a b");
	assert_refused("disconnect", "\"disconnect RULES\"");
	assert_refused("disconnect export=a", "\"disconnect RULES\"");
	assert_refused("disconnect uid:1 uid:2", "no blanks");
	assert_refused("disconnect uid:1, uid:2 export=a", "no blanks");
}
END_TEST

START_TEST(snapshot_takes_each_word_once)
{
	static const char *const bad[] = {
		"snapshot",
		"snapshot export=a",
		"snapshot new old",
		"snapshot new scratch=",
		"snapshot new scratch=/a scratch=/b",
		"snapshot new scratch-size=0",
		"snapshot new scratch-size=-1",
		"snapshot new scratch-size=1M scratch-size=2M",
		"snapshot new expire=0",
		"snapshot new expire=1M",
		"snapshot new expire=99999999999",
		"snapshot new expire=1 expire=2",
		"snapshot new colour=blue",
		"snapshot new checkpoint=",
		"snapshot new checkpoint=a checkpoint=b",
		"snapshot new local local",
		"snapshot new all all",
		"snapshot new all export=a",
		"snapshot new all=1",
	};

	assert_parses("snapshot new");
	ck_assert_int_eq(request.verb, CONTROL_SNAPSHOT);
	ck_assert_str_eq(request.snapshot, "new");
	ck_assert_ptr_null(request.scratch);
	ck_assert_uint_eq(request.scratch_size, 0);
	ck_assert_uint_eq(request.expire, 0);
	ck_assert_ptr_null(request.checkpoint);
	ck_assert(!request.all && !request.local);
	ck_assert_ptr_null(request.export_name);
	assert_parses("snapshot new checkpoint=a=b all expire=9 local");
	ck_assert_str_eq(request.checkpoint, "a=b");
	ck_assert_uint_eq(request.expire, 9);
	ck_assert(request.all && request.local);
	assert_parses("snapshot all all");
	ck_assert_str_eq(request.snapshot, "all");
	assert_parses("snapshot new expire=60  scratch=/a=b scratch-size=1M export=old one");
	ck_assert_str_eq(request.snapshot, "new");
	ck_assert_str_eq(request.scratch, "/a=b");
	ck_assert_uint_eq(request.scratch_size, 1 << 20);
	ck_assert_uint_eq(request.expire, 60);
	ck_assert_str_eq(request.export_name, "old one");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_refused(bad[i], "\"snapshot NEW\"");
}
END_TEST

START_TEST(rules_that_are_set_wrongly_are_refused)
{
	static const char *const bad[] = {
		"set allow",
		"set allow uid:1",
		"set allow=uid:1 uid:2",
		"set allow=a allow=b",
		"set allow-write=a allow-write=a",
		"set allow=a direct-io=on",
		"set direct-io=on allow=a",
		"set Allow=a",
		"set allow_write=a",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_refused(bad[i], "\"allow=RULES\"");
		assert_refused(bad[i], "no blanks");
	}
}
END_TEST

START_TEST(resize_works_with_and_without_an_export)
{
	assert_parses("resize");
	ck_assert_int_eq(request.verb, CONTROL_RESIZE);
	ck_assert_ptr_null(request.export_name);
	assert_parses("resize export=disk.img");
	ck_assert_int_eq(request.verb, CONTROL_RESIZE);
	ck_assert_str_eq(request.export_name, "disk.img");
}
END_TEST

START_TEST(reload_stands_alone)
{
	assert_parses("reload");
	ck_assert_int_eq(request.verb, CONTROL_RELOAD);
	ck_assert_ptr_null(request.export_name);
	assert_refused("reload export=disk", "nothing may follow");
}
END_TEST

START_TEST(listen_stands_alone)
{
	assert_parses("listen");
	ck_assert_int_eq(request.verb, CONTROL_LISTEN);
	ck_assert_ptr_null(request.export_name);
	assert_refused("listen export=disk", "nothing may follow");
}
END_TEST

START_TEST(add_takes_the_rest_of_the_line)
{
	assert_parses("add disk=/srv/a b.img,read-only=on ");
	ck_assert_int_eq(request.verb, CONTROL_ADD);
	ck_assert_str_eq(request.addition, "disk=/srv/a b.img,read-only=on ");
	assert_refused("add", "\"add NAME=PATH\"");
	assert_refused("add disk", "\"add NAME=PATH\"");
}
END_TEST

START_TEST(remove_needs_an_export)
{
	assert_parses("remove export=a b");
	ck_assert_int_eq(request.verb, CONTROL_REMOVE);
	ck_assert_str_eq(request.export_name, "a b");
	assert_parses("remove export=");
	ck_assert_str_eq(request.export_name, "");
	assert_refused("remove", "\"remove export=NAME\"");
	assert_refused("remove disk", "\"remove export=NAME\"");
}
END_TEST

START_TEST(export_takes_the_rest_of_the_line)
{
	assert_parses("resize export= my disk  export=2 ");
	ck_assert_str_eq(request.export_name, " my disk  export=2 ");
	assert_parses("set direct-io=off export=a=b\tc\xff");
	ck_assert_str_eq(request.export_name, "a=b\tc\xff");
}
END_TEST

START_TEST(empty_export_name_is_a_name)
{
	assert_parses("resize export=");
	ck_assert_ptr_nonnull(request.export_name);
	ck_assert_str_eq(request.export_name, "");
}
END_TEST

START_TEST(export_name_lies_in_the_callers_line)
{
	assert_parses("resize export=abc");
	ck_assert_ptr_eq(request.export_name, line + strlen("resize export="));
}
END_TEST

START_TEST(blanks_around_words_do_not_matter)
{
	assert_parses("  status  ");
	assert_parses("set   direct-io=on  ");
	ck_assert_ptr_null(request.export_name);
	assert_parses(" set direct-io=on   export=x");
	ck_assert_str_eq(request.export_name, "x");
}
END_TEST

START_TEST(export_name_of_4096_bytes_fits)
{
	char text[CONTROL_REQUEST_MAX] = "set direct-io=off export=";
	size_t start = strlen(text);

	memset(text + start, 'n', 4096);
	assert_parses(text);
	ck_assert_uint_eq(strlen(request.export_name), 4096);
}
END_TEST

START_TEST(checkpoint_is_created_and_deleted)
{
	static const char *const bad[] = {
		"checkpoint",
		"checkpoint list",
		"checkpoint create",
		"checkpoint delete",
		"checkpoint create a b",
		"checkpoint create export=a",
		"checkpoint Create a",
		"checkpoint create a granularity=4k b",
		"checkpoint delete a granularity=4k",
	};

	assert_parses("checkpoint create monday");
	ck_assert_int_eq(request.verb, CONTROL_CREATE_CHECKPOINT);
	ck_assert_str_eq(request.checkpoint, "monday");
	ck_assert_ptr_null(request.granularity);
	ck_assert_ptr_null(request.export_name);
	assert_parses("checkpoint create monday granularity=4k export=a b");
	ck_assert_str_eq(request.granularity, "4k");
	ck_assert_str_eq(request.export_name, "a b");
	assert_parses("checkpoint delete monday export=granularity=1");
	ck_assert_int_eq(request.verb, CONTROL_DELETE_CHECKPOINT);
	ck_assert_str_eq(request.checkpoint, "monday");
	ck_assert_str_eq(request.export_name, "granularity=1");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_refused(bad[i], "\"checkpoint delete NAME\"");
}
END_TEST

START_TEST(unknown_verb_is_refused_with_all_that_is_known)
{
	static const char *const bad[] = {
		"",      " ",        "stat",     "statusx",       "STATUS",
		"reset", "status\r", "status\t", "get direct-io",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_refused(bad[i], "\"status\"");
		assert_refused(bad[i], "\"set direct-io=on|off [export=NAME]\"");
		assert_refused(bad[i], "\"resize [export=NAME]\"");
		assert_refused(bad[i], "\"add NAME=PATH\"");
		assert_refused(bad[i], "\"remove export=NAME\"");
		assert_refused(bad[i], "\"set allow=RULES [allow-write=RULES] [export=NAME]\"");
		assert_refused(bad[i], "\"disconnect RULES [export=NAME]\"");
		assert_refused(bad[i], "\"snapshot NEW [scratch=DIR]");
		assert_refused(bad[i],
			       "\"checkpoint create NAME [granularity=SIZE] [export=NAME]\"");
		assert_refused(bad[i], "\"checkpoint delete NAME [export=NAME]\"");
	}
}
END_TEST

START_TEST(bad_setting_is_refused_with_what_is_allowed)
{
	static const char *const bad[] = {
		"set",
		"set direct-io",
		"set direct-io=",
		"set direct-io=auto",
		"set direct-io=ON",
		"set direct-io=onn",
		"set direct-io on",
		"set direct_io=on",
		"set poll=on",
		"set export=a",
		"set export=a direct-io=on",
		"set direct-io=on direct-io=off",
		"set direct-io=on exports=a",
		"set direct-io=on Export=a",
		"set direct-io=on disk.img",
		"set direct-io=on,export=a",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_refused(bad[i], "\"set direct-io=on\" or \"set direct-io=off\"");
		assert_refused(bad[i], "\"export=NAME\"");
	}
}
END_TEST

START_TEST(resize_with_anything_but_an_export_is_refused)
{
	assert_refused("resize disk.img", "only \"export=NAME\"");
	assert_refused("resize 1G", "only \"export=NAME\"");
	assert_refused("resize export", "only \"export=NAME\"");
	assert_refused("resize x export=a", "only \"export=NAME\"");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "parser"},
		{.test = status_stands_alone},
		{.test = set_tells_on_from_off},
		{.test = set_takes_an_export},
		{.test = set_takes_rules},
		{.test = set_takes_limits},
		{.test = disconnect_takes_rules},
		{.test = snapshot_takes_each_word_once},
		{.test = rules_that_are_set_wrongly_are_refused},
		{.test = resize_works_with_and_without_an_export},
		{.test = reload_stands_alone},
		{.test = listen_stands_alone},
		{.test = add_takes_the_rest_of_the_line},
		{.test = remove_needs_an_export},
		{.test = export_takes_the_rest_of_the_line},
		{.test = empty_export_name_is_a_name},
		{.test = export_name_lies_in_the_callers_line},
		{.test = blanks_around_words_do_not_matter},
		{.test = export_name_of_4096_bytes_fits},
		{.test = checkpoint_is_created_and_deleted},
		{.test = unknown_verb_is_refused_with_all_that_is_known},
		{.test = bad_setting_is_refused_with_what_is_allowed},
		{.test = resize_with_anything_but_an_export_is_refused},
		{0},
	};

	return suite_run("request", cases);
}
