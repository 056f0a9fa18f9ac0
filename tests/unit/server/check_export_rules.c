/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules of exports: what clients find, and changes of the rules.  The images are files in
 * memory, and a client is the handshake's calls; there is no worker.
 */
#include "server/exports/exports.h"

#include "nbd/protocol.h"
#include "server/access/access.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_image.h"
#include "server/exports/export_source.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 4

static struct exports *exports;
static struct server_config config;
static int files[3];
static struct identity identities[CLIENTS]; /* users 0 to 3 */
static struct applicant clients[CLIENTS];

static void
wake(void *data)
{
	(void)data;
}

static void
begin(void)
{
	static char place[] = "a client";

	log_capture_begin();
	ck_assert_int_eq(config_init(&config), 0);
	for (unsigned int i = 0; i < 3; i++)
		files[i] = scratch_memory_file(65536);
	exports = exports_new(NULL, 0, wake, NULL);
	ck_assert_ptr_nonnull(exports);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		identities[i] = (struct identity){
			.kind = IDENTITY_UNIX, .uid = i, .gid = 100, .text = place};
		clients[i] = (struct applicant){.exports = exports, .identity = &identities[i]};
	}
}

static void
end(void)
{
	exports_free(exports);
	config_fini(&config);
	for (unsigned int i = 0; i < CLIENTS; i++)
		free(clients[i].refused);
	for (unsigned int i = 0; i < 3; i++)
		close(files[i]);
	log_capture_end();
}

/* Adds an export to the configuration. */
static void
configure(const char *name, unsigned int file, const char *allow, const char *allow_write)
{
	const struct option_row *rows = export_option_rows();
	struct export_config *added;
	char path[SCRATCH_PATH], *error = NULL;

	ck_assert_int_eq(config_add_export(&config, name, &added, &error), 0);
	ck_assert_int_eq(option_set(rows, added, "file", scratch_path(files[file], path), &error),
			 0);
	if (allow)
		ck_assert_int_eq(option_set(rows, added, "allow", allow, &error), 0);
	if (allow_write)
		ck_assert_int_eq(option_set(rows, added, "allow-write", allow_write, &error), 0);
}

/* Reads the rules of the configuration, and follows it. */
static void
follow(void)
{
	char *error = NULL;

	ck_assert_msg(config_check(&config, 0, &error) == 0, "%s", error);
	exports_reload(exports, &config);
}

static void
add(const char *name, unsigned int file, const char *allow, const char *allow_write)
{
	char *error = NULL;
	struct export_config *export;

	configure(name, file, allow, allow_write);
	ck_assert_msg(config_check(&config, 0, &error) == 0, "%s", error);
	export = config.exports;
	config.exports = NULL;
	ck_assert_msg(exports_add(exports, export, &error) == 0, "%s", error);
}

/* What the client finds: the export, or NULL and *refusal. */
static const struct nbd_export *
find(unsigned int client, const char *name, struct nbd_refusal *refusal)
{
	*refusal = (struct nbd_refusal){NBD_REP_ERR_UNKNOWN, "no such export", false};
	return exports_listed.find(&clients[client], name, strlen(name), refusal);
}

static const struct nbd_export *
assert_found(unsigned int client, const char *name)
{
	struct nbd_refusal refusal;
	const struct nbd_export *export = find(client, name, &refusal);

	ck_assert_msg(export != NULL, "client %u, \"%s\": %s", client, name, refusal.message);
	return export;
}

static void
assert_refused(unsigned int client, const char *name, uint32_t type)
{
	struct nbd_refusal refusal;

	ck_assert_ptr_null(find(client, name, &refusal));
	ck_assert_uint_eq(refusal.type, type);
	/* Nothing tells hidden exports from those that don't exist. */
	ck_assert_int_eq(strcmp(refusal.message, "no such export") == 0,
			 type == NBD_REP_ERR_UNKNOWN);
}

static bool
is_read_only(unsigned int client, const char *name)
{
	return exports_listed.read_only(&clients[client], assert_found(client, name));
}

/* The names that the client is listed, each with a blank. */
static const char *
listed(unsigned int client)
{
	static char text[64];
	const struct nbd_export *export;

	text[0] = '\0';
	for (size_t n = 0; (export = exports_listed.list(&clients[client], n)) != NULL; n++) {
		strcat(text, export->name);
		strcat(text, " ");
	}
	return text;
}

/* ---- what clients find */

START_TEST(client_is_listed_what_it_may_use)
{
	add("a", 0, "uid:1,uid:2", NULL);
	add("b", 1, NULL, NULL);
	add("c", 2, "uid:1", "uid:3");
	ck_assert_str_eq(listed(0), "b ");
	ck_assert_str_eq(listed(1), "a b c ");
	ck_assert_str_eq(listed(2), "a b ");
	ck_assert_str_eq(listed(3), "b c ");
}
END_TEST

START_TEST(hidden_export_is_like_one_that_does_not_exist)
{
	add("a", 0, "uid:1", NULL);
	add("b", 1, NULL, NULL);
	assert_found(1, "a");
	assert_found(2, "b");
	assert_refused(2, "a", NBD_REP_ERR_UNKNOWN);
	assert_refused(2, "x", NBD_REP_ERR_UNKNOWN);
}
END_TEST

START_TEST(client_that_may_use_nothing_is_told_so_whatever_it_asks_for)
{
	add("a", 0, "uid:1", NULL);
	add("b", 1, "uid:2", NULL);
	assert_refused(3, "a", NBD_REP_ERR_POLICY);
	assert_refused(3, "b", NBD_REP_ERR_POLICY);
	assert_refused(3, "x", NBD_REP_ERR_POLICY);
	assert_refused(3, "", NBD_REP_ERR_POLICY);
	ck_assert_str_eq(listed(3), "");
	assert_refused(1, "b", NBD_REP_ERR_UNKNOWN);
}
END_TEST

START_TEST(server_without_exports_refuses_by_no_rule)
{
	assert_refused(0, "a", NBD_REP_ERR_UNKNOWN);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(client_that_may_only_read_is_known)
{
	add("a", 0, "uid:1", "uid:2");
	ck_assert(is_read_only(1, "a"));
	ck_assert(!is_read_only(2, "a"));
	ck_assert(exports_unlisted.read_only(&clients[1], assert_found(1, "a")));
	add("b", 1, NULL, NULL);
	ck_assert(!is_read_only(1, "b"));
}
END_TEST

START_TEST(default_export_is_the_only_one_that_the_client_may_use)
{
	add("a", 0, "uid:1,uid:2", NULL);
	ck_assert_str_eq(assert_found(1, "")->name, "a");
	assert_refused(3, "", NBD_REP_ERR_POLICY);
	add("b", 1, "uid:1,uid:3", NULL);
	assert_refused(1, "", NBD_REP_ERR_UNKNOWN);
	ck_assert_str_eq(assert_found(2, "")->name, "a");
	ck_assert_str_eq(assert_found(3, "")->name, "b");
}
END_TEST

/* Its client would read and write another disk. */
START_TEST(export_without_a_name_is_replaced_by_no_other)
{
	add("", 0, "uid:1", NULL);
	add("b", 1, NULL, NULL);
	ck_assert_str_eq(assert_found(1, "")->name, "");
	assert_refused(2, "", NBD_REP_ERR_UNKNOWN);
}
END_TEST

/* ---- the log */

START_TEST(refusal_is_one_line_for_all_options_of_a_try)
{
	add("a", 0, "uid:1", NULL);
	add("b", 1, NULL, NULL);
	for (unsigned int i = 0; i < 4; i++)
		assert_refused(2, "a", NBD_REP_ERR_UNKNOWN);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_WARNING, 0),
			 "a client: refused: no rule lets this client use the export \"a\"");
	ck_assert(clients[2].was_refused);
	assert_found(2, "b");
	ck_assert(!clients[2].was_refused);
	/* A name that does not exist is no matter of rules. */
	assert_refused(2, "x", NBD_REP_ERR_UNKNOWN);
	ck_assert(!clients[2].was_refused);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
}
END_TEST

START_TEST(refusal_of_a_name_that_does_not_exist_is_told)
{
	add("a", 0, "uid:1", NULL);
	assert_refused(2, "x", NBD_REP_ERR_POLICY);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "no rule lets this client use any export"));
}
END_TEST

/* ---- changes */

static void
assert_join(unsigned int client, const struct nbd_export *facts, bool works)
{
	const char *message;

	ck_assert_int_eq(exports_listed.join(&clients[client], facts, &message) == 0, works);
}

START_TEST(changed_rules_are_for_new_clients)
{
	const struct nbd_export *old;
	char *error;

	add("a", 0, "uid:1", NULL);
	old = assert_found(1, "a");
	assert_join(1, old, true);
	ck_assert_int_eq(exports_set_access(exports, "a", "uid:2", NULL, 0, &error), 0);
	assert_refused(1, "a", NBD_REP_ERR_POLICY);
	assert_found(2, "a");
	ck_assert_str_eq(old->name, "a");
	/* Found before the change, joined after it. */
	assert_join(1, old, false);
	ck_assert(log_capture_has(LOG_LEVEL_INFO, "clients need a rule: allow=uid:2"));
	exports_left(exports, offer_of(old), clients[1].client);
}
END_TEST

START_TEST(option_that_is_not_changed_stays)
{
	char *error;

	add("a", 0, "uid:1", "uid:2");
	ck_assert_int_eq(exports_set_access(exports, NULL, "uid:3", NULL, 0, &error), 0);
	assert_refused(1, "a", NBD_REP_ERR_POLICY);
	ck_assert(!is_read_only(2, "a"));
	ck_assert(is_read_only(3, "a"));
	ck_assert_int_eq(exports_set_access(exports, NULL, NULL, "uid:3", 0, &error), 0);
	assert_refused(2, "a", NBD_REP_ERR_POLICY);
	ck_assert(!is_read_only(3, "a"));
	ck_assert_int_eq(exports_set_access(exports, "a", "any", "any", 0, &error), 0);
	ck_assert(!is_read_only(0, "a"));
}
END_TEST

START_TEST(wrong_rules_change_nothing)
{
	char *error;

	add("a", 0, "uid:1", NULL);
	ck_assert_int_eq(exports_set_access(exports, "a", "uid:2,x", NULL, 0, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "allow: x: "));
	free(error);
	assert_found(1, "a");
	assert_refused(2, "a", NBD_REP_ERR_POLICY);
	ck_assert_int_eq(exports_set_access(exports, "b", "uid:2", NULL, 0, &error), -ENOENT);
	ck_assert_ptr_null(error);
}
END_TEST

START_TEST(resized_export_keeps_its_rules)
{
	char *error;

	add("a", 0, "uid:1", "uid:2");
	ck_assert_int_eq(ftruncate(files[0], 131072), 0);
	ck_assert_int_eq(exports_resize(exports, "a", &error), 0);
	ck_assert_uint_eq(assert_found(1, "a")->size, 131072);
	ck_assert(is_read_only(1, "a"));
	assert_refused(3, "a", NBD_REP_ERR_POLICY);
}
END_TEST

START_TEST(reload_changes_rules_without_a_restart)
{
	const struct nbd_export *old;

	add("a", 0, NULL, NULL);
	old = assert_found(3, "a");
	configure("a", 0, "uid:1", "uid:2");
	follow();
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	assert_refused(3, "a", NBD_REP_ERR_POLICY);
	ck_assert(is_read_only(1, "a"));
	ck_assert_ptr_ne(assert_found(1, "a"), old);
	/* The same again is no change. */
	old = assert_found(1, "a");
	configure("a", 0, "uid:1", "uid:2");
	follow();
	ck_assert_ptr_eq(assert_found(1, "a"), old);
	configure("a", 0, NULL, NULL);
	follow();
	assert_found(3, "a");
	ck_assert(log_capture_has(LOG_LEVEL_INFO, "no rules any more: all clients may use it"));
}
END_TEST

/* The file tells what holds, not a change on the control socket before. */
START_TEST(reload_takes_back_a_change)
{
	char *error;

	add("a", 0, "uid:1", NULL);
	ck_assert_int_eq(exports_set_access(exports, "a", "any", NULL, 0, &error), 0);
	assert_found(3, "a");
	configure("a", 0, "uid:1", NULL);
	follow();
	assert_refused(3, "a", NBD_REP_ERR_POLICY);
}
END_TEST

/* As the main thread does when no client has the old offer any more. */
static void
reap(enum log_level level, const char *text)
{
	(void)level;
	(void)text;
	exports_reap(exports); /* asks the workers, of which there is none */
	exports_reap(exports);
}

/* Another thread freed the old offer while the change of rules was still reading it.  Without
 * sanitizers, only the second change below shows that. */
START_TEST(offer_may_be_freed_while_its_rules_change)
{
	struct export_config *wanted;
	char *error;

	add("a", 0, "uid:1", NULL);
	log_set_sink(reap);
	ck_assert_int_eq(exports_set_access(exports, "a", "uid:2", NULL, 0, &error), 0);
	configure("a", 0, "uid:3", NULL);
	wanted = config.exports;
	ck_assert_int_eq(option_set(export_option_rows(), wanted, "iops-limit", "1000", &error), 0);
	follow();
	assert_refused(2, "a", NBD_REP_ERR_POLICY);
	ck_assert_ptr_nonnull(offer_of(assert_found(3, "a"))->export->limiter);
	ck_assert_ptr_null(exports->retired);
}
END_TEST

static void
note_rules(void *data, const struct visited *visited)
{
	*(struct access **)data = access_hold(visited->access);
}

START_TEST(status_sees_the_rules_of_now)
{
	struct access *access = NULL;
	char *error;

	add("a", 0, "uid:1", NULL);
	ck_assert_int_eq(exports_set_access(exports, "a", NULL, "uid:2", 0, &error), 0);
	ck_assert_uint_eq(exports_visit(exports, "a", note_rules, &access), 1);
	ck_assert_str_eq(access->allow, "uid:1");
	ck_assert_str_eq(access->allow_write, "uid:2");
	access_release(access);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "finding", .begin = begin, .end = end},
		{.test = client_is_listed_what_it_may_use},
		{.test = hidden_export_is_like_one_that_does_not_exist},
		{.test = client_that_may_use_nothing_is_told_so_whatever_it_asks_for},
		{.test = server_without_exports_refuses_by_no_rule},
		{.test = client_that_may_only_read_is_known},
		{.test = default_export_is_the_only_one_that_the_client_may_use},
		{.test = export_without_a_name_is_replaced_by_no_other},

		{.name = "log", .begin = begin, .end = end},
		{.test = refusal_is_one_line_for_all_options_of_a_try},
		{.test = refusal_of_a_name_that_does_not_exist_is_told},

		{.name = "changes", .begin = begin, .end = end},
		{.test = changed_rules_are_for_new_clients},
		{.test = option_that_is_not_changed_stays},
		{.test = wrong_rules_change_nothing},
		{.test = resized_export_keeps_its_rules},
		{.test = reload_changes_rules_without_a_restart},
		{.test = reload_takes_back_a_change},
		{.test = offer_may_be_freed_while_its_rules_change},
		{.test = status_sees_the_rules_of_now},
		{0},
	};

	return suite_run("export rules", cases);
}
