/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How exports are named, and the columns of their tables.
 */
#include "tool/show/export_columns.h"
#include "tool/verb/asked_server.h"

#include "tests/lib/suite.h"

#include "tool/failure.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* `socket`, `export`: wanted; NULL: none is named. */
static void
assert_named(const char *text, const char *socket, const char *export)
{
	const char *name = "unset";
	g_autofree char *path = asked_server_socket(text, &name);

	ck_assert_str_eq(path, socket);
	ck_assert_pstr_eq(name, export);
}

START_TEST(names_without_a_socket_are_of_the_service)
{
	assert_named("disk", ASKED_SERVER_SOCKET, "disk");
	assert_named("", ASKED_SERVER_SOCKET, "");
	assert_named("a:b", ASKED_SERVER_SOCKET, "a:b");
	assert_named(":", ASKED_SERVER_SOCKET, ":");
	assert_named("a:b/c", ASKED_SERVER_SOCKET, "a:b/c");
	assert_named("n\303\244me of blanks", ASKED_SERVER_SOCKET, "n\303\244me of blanks");
}
END_TEST

START_TEST(slash_before_a_colon_means_a_socket)
{
	assert_named("./no.ctl:disk", "./no.ctl", "disk");
	assert_named("/no/such.ctl", "/no/such.ctl", NULL);
	assert_named("/no/such.ctl:", "/no/such.ctl", "");
	assert_named("/no/such.ctl:a:b/c=d e", "/no/such.ctl", "a:b/c=d e");
}
END_TEST

START_TEST(socket_that_exists_may_have_colons)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char directory[] = "/tmp/check_export.XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(directory));
	ck_assert_int_eq(chdir(directory), 0);
	strcpy(address.sun_path, "a:b.ctl");
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_named("a:b.ctl", "a:b.ctl", NULL);
	assert_named("a:b.ctl:", "a:b.ctl", "");
	assert_named("a:b.ctl:x:y", "a:b.ctl", "x:y");
	assert_named("./a:b.ctl:disk", "./a:b.ctl", "disk");
	assert_named("b.ctl:disk", ASKED_SERVER_SOCKET, "b.ctl:disk");
	close(fd);
	unlink("a:b.ctl");
	ck_assert_int_eq(chdir("/"), 0);
	rmdir(directory);
}
END_TEST

/* The table of one object. Caller frees. */
static char *
printed_table(enum export_table table, const char *names, const char *objects, bool headings)
{
	g_autoptr(GPtrArray) columns = export_columns_parse(table, names, NULL);
	json_auto_t *array = json_loads(objects, 0, NULL);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(columns);
	ck_assert_ptr_nonnull(array);
	ck_assert_ptr_nonnull(out);
	export_columns_print(out, columns, array, headings);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

static void
assert_printed(enum export_table table, const char *names, const char *objects, const char *wanted)
{
	char *text = printed_table(table, names, objects, true);

	ck_assert_str_eq(text, wanted);
	free(text);
}

START_TEST(facts_of_exports_are_cells)
{
	char *text;

	assert_printed(
		EXPORT_TABLE_EXPORTS, "name,size,limits,snapshot-of",
		"[{\"name\": \"a\\u001b[2J b\", \"size\": 512, \"limits\": {\"iops\": "
		"{\"both\": 500, \"read\": 100, \"burst\": 0}, \"connections\": 3}},"
		" {\"name\": \"then\", \"size\": 1048576, \"limits\": {},"
		"  \"snapshot\": {\"of\": \"a\"}}]",
		"NAME          SIZE LIMITS                                      SNAPSHOT-OF\n"
		"a\\x1b[2J b     512 iops-limit=500,read:100 connections-limit=3\n"
		"then       1048576                                             a\n");
	assert_printed(
		EXPORT_TABLE_EXPORTS, "limits,client-limits",
		"[{\"limits\": {\"bandwidth\": {\"both\": 0, \"read\": 0, \"write\": 3145728,"
		" \"burst\": 2097152}}, \"client_limits\": {\"iops\": {\"both\": 7}}}]",
		"LIMITS                            CLIENT-LIMITS\n"
		"bandwidth-limit=write:3M,burst:2M iops-limit=7\n");
	text = printed_table(EXPORT_TABLE_EXPORTS, "NAME", "[{\"name\": \"\"}, {\"name\": 1}]",
			     false);
	ck_assert_str_eq(text, "\n1\n");
	free(text);
}
END_TEST

START_TEST(facts_of_clients_are_cells)
{
	assert_printed(EXPORT_TABLE_CLIENTS, NULL,
		       "[{\"id\": 7, \"export\": null, \"read_only\": true, \"tls\": null,"
		       " \"identity\": [\"psk:bob\", \"net:::1/128\"], \"client\": \"::1\"}]",
		       "ID EXPORT RO TLS IDENTITY            CLIENT\n"
		       " 7         1     psk:bob,net:::1/128 ::1\n");
	assert_printed(EXPORT_TABLE_CLIENTS, "+requests", "[{\"id\": 8, \"requests\": 4}]",
		       "ID EXPORT RO TLS IDENTITY CLIENT REQUESTS\n"
		       " 8                                      4\n");
	assert_printed(EXPORT_TABLE_CLIENTS, "+requests", "[]", "");
}
END_TEST

START_TEST(unknown_columns_are_named)
{
	GError *error = NULL;

	ck_assert_ptr_null(export_columns_parse(EXPORT_TABLE_CLIENTS, "ID,NAME", &error));
	ck_assert(failure_is(error, EINVAL) && strstr(error->message, "unknown column: NAME;"));
	g_clear_error(&error);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "exports"},
		{.test = names_without_a_socket_are_of_the_service},
		{.test = slash_before_a_colon_means_a_socket},
		{.test = socket_that_exists_may_have_colons},
		{.test = facts_of_exports_are_cells},
		{.test = facts_of_clients_are_cells},
		{.test = unknown_columns_are_named},
		{0},
	};

	return suite_run("export_columns", cases);
}
