/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who gets what by HTTP: the host that a request names, the token, methods and paths.
 */
#include "server/http/route.h"

#include "server/http/admission.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN "0123456789abcdef"

/* ---- the host */

static const struct {
	const char *host;
	bool local;
} hosts[] = {
	{NULL, false},
	{"localhost", true},
	{"LocalHost:9140", true},
	{"127.0.0.1", true},
	{"127.0.0.1:9140", true},
	{"127.255.255.254", true},
	{"[::1]", true},
	{"[::1]:9140", true},
	{"", false},
	{":9140", false},
	{"evil.example", false},
	{"evil.example:9140", false},
	{"localhost.evil.example", false},
	{"localhost:9140.evil.example", false},
	{"127.0.0.1.evil.example", false},
	{"127.0.0.1:x", false},
	{"[::1].evil.example", false},
	{"[::2]", false},
	{"10.0.0.1", false},
	{"255.255.255.2555", false},
	{"0.0.0.0", false},
};

START_TEST(only_names_of_this_machine_are_local)
{
	ck_assert_int_eq(http_host_is_local(hosts[_i].host), hosts[_i].local);
}
END_TEST

/* ---- the token */

static const struct {
	const char *authorization;
	bool fits;
} authorizations[] = {
	{"Bearer " TOKEN, true},
	{"bearer " TOKEN, true},
	{NULL, false},
	{"", false},
	{"Bearer", false},
	{"Bearer ", false},
	{TOKEN, false},
	{"Basic " TOKEN, false},
	{"Bearer  " TOKEN, false},
	{"Bearer " TOKEN TOKEN, false},
	{"Bearer " TOKEN " ", false},
	{"Bearer 0123456789abcde", false},
	{"Bearer 0123456789abcdeF", false},
	{"Bearer 1123456789abcdef", false},
};

START_TEST(only_the_whole_token_fits)
{
	ck_assert_int_eq(http_token_fits(TOKEN, authorizations[_i].authorization),
			 authorizations[_i].fits);
}
END_TEST

static char directory[SCRATCH_PATH], path[SCRATCH_PATH + 16];
static char *token, *error;

static void
begin(void)
{
	log_capture_begin();
	scratch_directory_new(directory);
	snprintf(path, sizeof(path), "%s/token", directory);
	token = error = NULL;
}

static void
end(void)
{
	unlink(path);
	scratch_directory_remove(directory);
	free(token);
	free(error);
	log_capture_end();
}

static int
read_token(const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return http_token_read(path, &token, &error);
}

START_TEST(a_token_is_one_line)
{
	ck_assert_int_eq(read_token(TOKEN "\n"), 0);
	ck_assert_str_eq(token, TOKEN);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(a_token_needs_no_newline)
{
	ck_assert_int_eq(read_token(TOKEN), 0);
	ck_assert_str_eq(token, TOKEN);
}
END_TEST

START_TEST(a_token_that_all_can_read_is_warned_about)
{
	ck_assert_int_eq(read_token(TOKEN), 0);
	free(token);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(http_token_read(path, &token, &error), 0);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "every user"));
}
END_TEST

static const char *const no_tokens[] = {
	"", "\n", "0123456789abcde\n", TOKEN "\n\n", TOKEN " \n", TOKEN "\r\n", TOKEN "\x80\n",
};

START_TEST(what_is_no_token_is_refused)
{
	ck_assert_int_eq(read_token(no_tokens[_i]), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "one line of 16 to 512"));
}
END_TEST

START_TEST(a_token_has_a_greatest_length)
{
	char text[HTTP_TOKEN_MAX + 2] = {0};

	memset(text, 'x', HTTP_TOKEN_MAX);
	ck_assert_int_eq(read_token(text), 0);
	ck_assert_uint_eq(strlen(token), HTTP_TOKEN_MAX);
	text[HTTP_TOKEN_MAX] = 'x';
	free(token);
	token = NULL;
	ck_assert_int_eq(read_token(text), -EINVAL);
}
END_TEST

START_TEST(a_missing_token_is_told)
{
	ck_assert_int_eq(http_token_read(path, &token, &error), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, "No such file"));
}
END_TEST

/* ---- routes */

static struct http_answer answer;

static unsigned int
ask(const char *method, const char *url, const char *host, const char *authorization,
    const char *needed)
{
	const struct http_request request = {
		.method = method, .path = url, .host = host, .authorization = authorization};

	http_route(&request, needed, &answer);
	return answer.code;
}

START_TEST(each_path_has_its_answer)
{
	ck_assert_uint_eq(ask("GET", "/", "localhost", NULL, NULL), 200);
	ck_assert_str_eq(answer.type, "text/html; charset=utf-8");
	ck_assert_int_eq(answer.figures, FIGURES_NONE);
	ck_assert_uint_gt(answer.size, 100);
	ck_assert_uint_eq(ask("HEAD", "/page.js", "localhost", NULL, NULL), 200);
	ck_assert_str_eq(answer.type, "text/javascript; charset=utf-8");
	ck_assert_uint_eq(ask("GET", "/metrics", "localhost", NULL, NULL), 200);
	ck_assert_int_eq(answer.figures, FIGURES_METRICS);
	ck_assert_uint_eq(ask("GET", "/status.json", "localhost", NULL, NULL), 200);
	ck_assert_int_eq(answer.figures, FIGURES_STATUS);
	ck_assert_uint_eq(ask("GET", "/metrics/", "localhost", NULL, NULL), 404);
	ck_assert_uint_eq(ask("GET", "/../etc/passwd", "localhost", NULL, NULL), 404);
	ck_assert_uint_eq(ask("GET", "", "localhost", NULL, NULL), 404);
}
END_TEST

START_TEST(only_get_and_head_are_methods)
{
	static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		ck_assert_uint_eq(ask(methods[i], "/metrics", "localhost", NULL, NULL), 405);
		ck_assert_str_eq(answer.field, "Allow");
		ck_assert_str_eq(answer.value, "GET, HEAD");
	}
}
END_TEST

START_TEST(a_foreign_host_gets_nothing)
{
	struct http_request request = {.method = "GET", .path = "/metrics", .host = "evil.example"};

	http_route(&request, NULL, &answer);
	ck_assert_uint_eq(answer.code, 421);
	ck_assert_uint_eq(ask("GET", "/", "evil.example", NULL, NULL), 421);
	/* No name leads a browser to a unix socket. */
	request.over_unix = true;
	http_route(&request, NULL, &answer);
	ck_assert_uint_eq(answer.code, 200);
}
END_TEST

START_TEST(a_request_without_host_gets_nothing)
{
	struct http_request request = {.method = "GET", .path = "/metrics"};

	http_route(&request, TOKEN, &answer);
	ck_assert_uint_eq(answer.code, 400);
	request.over_unix = true;
	http_route(&request, NULL, &answer);
	ck_assert_uint_eq(answer.code, 400);
	/* HTTP/1.0 knows no hosts; no browser speaks it. */
	request.older = true;
	http_route(&request, NULL, &answer);
	ck_assert_uint_eq(answer.code, 200);
	request.over_unix = false;
	http_route(&request, NULL, &answer);
	ck_assert_uint_eq(answer.code, 421);
}
END_TEST

START_TEST(metrics_are_open_metrics_only_when_asked_for)
{
	struct http_request request = {.method = "GET", .path = "/metrics", .host = "localhost"};

	http_route(&request, NULL, &answer);
	ck_assert_str_eq(answer.type, "text/plain; version=0.0.4; charset=utf-8");
	ck_assert_int_eq(answer.figures, FIGURES_METRICS);
	request.accept = "application/openmetrics-text; version=1.0.0";
	http_route(&request, NULL, &answer);
	ck_assert_str_eq(answer.type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
	ck_assert_int_eq(answer.figures, FIGURES_OPEN_METRICS);
}
END_TEST

START_TEST(figures_need_the_token_and_the_page_does_not)
{
	ck_assert_uint_eq(ask("GET", "/metrics", "localhost", NULL, TOKEN), 401);
	ck_assert_str_eq(answer.field, "WWW-Authenticate");
	ck_assert_int_eq(answer.figures, FIGURES_NONE);
	ck_assert_uint_eq(ask("HEAD", "/status.json", "localhost", "Bearer x", TOKEN), 401);
	ck_assert_uint_eq(ask("GET", "/", "localhost", NULL, TOKEN), 200);
	/* With a token, the server may have any name. */
	ck_assert_uint_eq(ask("GET", "/metrics", "disks.example", "Bearer " TOKEN, TOKEN), 200);
	ck_assert_uint_eq(ask("GET", "/status.json", "x", "Bearer " TOKEN, TOKEN), 200);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "host"},
		{.test = only_names_of_this_machine_are_local, .last = COUNT(hosts)},
		{.name = "token", .begin = begin, .end = end},
		{.test = only_the_whole_token_fits, .last = COUNT(authorizations)},
		{.test = a_token_is_one_line},
		{.test = a_token_needs_no_newline},
		{.test = a_token_that_all_can_read_is_warned_about},
		{.test = what_is_no_token_is_refused, .last = COUNT(no_tokens)},
		{.test = a_token_has_a_greatest_length},
		{.test = a_missing_token_is_told},
		{.name = "route"},
		{.test = each_path_has_its_answer},
		{.test = only_get_and_head_are_methods},
		{.test = a_foreign_host_gets_nothing},
		{.test = a_request_without_host_gets_nothing},
		{.test = metrics_are_open_metrics_only_when_asked_for},
		{.test = figures_need_the_token_and_the_page_does_not},
		{0},
	};

	return suite_run("http_route", cases);
}
