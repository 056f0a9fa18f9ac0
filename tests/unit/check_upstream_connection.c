/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is said of a server that can't be connected to.
 */
#include "tool/server/upstream_connection.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>

static void
assert_refused(const char *uri, const char *wanted)
{
	struct upstream_connection connection;
	GError *error = NULL;

	ck_assert(!upstream_connection_to_uri(&connection, uri, &error));
	ck_assert_msg(g_str_has_prefix(error->message, wanted), "\"%s\" instead of \"%s\"",
		      error->message, wanted);
	g_error_free(error);
}

START_TEST(error_names_the_uri_and_no_function)
{
	assert_refused("nbd+unix:///?socket=/nonexistent/nbd.sock",
		       "nbd+unix:///?socket=/nonexistent/nbd.sock: No such file or directory");
	assert_refused("nbd+nonsense://x", "nbd+nonsense://x: unknown NBD URI scheme: ");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "uri"},
		{.test = error_names_the_uri_and_no_function},
		{0},
	};

	return suite_run("connection", cases);
}
