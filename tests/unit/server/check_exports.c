/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports: what clients find, and changes while they are connected.  The images are files in
 * memory; a client is the handshake's calls, and a worker runs that forgets retired offers.
 */
#include "server/exports/exports.h"

#include "server/access/identity.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_image.h"
#include "server/exports/export_source.h"
#include "server/exports/snapshots.h"
#include "tests/lib/suite.h"
#include "tests/unit/event_capture.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB 1024u

static struct exports *exports;
static struct worker worker;
static struct worker_config worker_config;
static struct server_config config;
static int files[2];
static _Atomic unsigned int wakes;
static const struct identity identity = {.kind = IDENTITY_UNIX};
static struct applicant applicant;

static void
wake(void *data)
{
	(void)data;
	atomic_fetch_add(&wakes, 1);
}

static void
begin(void)
{
	log_capture_begin();
	ck_assert_int_eq(config_init(&config), 0);
	for (unsigned int i = 0; i < 2; i++)
		files[i] = scratch_memory_file(64 * KIB);
	exports = exports_new(&worker, 1, wake, NULL);
	ck_assert_ptr_nonnull(exports);
	applicant = (struct applicant){.exports = exports, .identity = &identity};
	worker_config = (struct worker_config){
		.exports = exports,
		.left = exports_left,
		.forgotten = exports_forgotten,
		.memory_limit = (size_t)32 << 20,
	};
	ck_assert_int_eq(worker_start(&worker, 0, &worker_config), 0);
}

static void
end(void)
{
	worker_join(&worker);
	exports_free(exports);
	config_fini(&config);
	for (unsigned int i = 0; i < 2; i++)
		close(files[i]);
	log_capture_end();
}

/* Adds it to the configuration. */
static struct export_config *
configure(const char *name, unsigned int file)
{
	struct export_config *added;
	char path[SCRATCH_PATH], *error = NULL;

	ck_assert_int_eq(config_add_export(&config, name, &added, &error), 0);
	ck_assert_int_eq(option_set(export_option_rows(), added, "file",
				    scratch_path(files[file], path), &error),
			 0);
	return added;
}

static void
choose(struct export_config *export, const char *name, const char *value)
{
	char *error = NULL;

	ck_assert_int_eq(option_set(export_option_rows(), export, name, value, &error), 0);
}

/* Opens the only one that is configured. */
static int
add_configured(char **error)
{
	struct export_config *export = config.exports;

	config.exports = NULL;
	return exports_add(exports, export, error);
}

static void
add(const char *name, unsigned int file)
{
	char *error;

	configure(name, file);
	ck_assert_int_eq(add_configured(&error), 0);
}

static struct offer *
find(const char *name)
{
	struct nbd_refusal refusal = {0};
	const struct nbd_export *facts =
		exports_listed.find(&applicant, name, strlen(name), &refusal);

	return facts ? offer_of(facts) : NULL;
}

static uint32_t
join(struct offer *offer)
{
	const char *message = NULL;
	uint32_t r = exports_listed.join(&applicant, &offer->facts, &message);

	ck_assert_int_eq(r != 0, message != NULL);
	return r;
}

/* There is only one client. */
static void
leave(struct offer *offer)
{
	exports_left(exports, offer, offer->export->clients);
}

static struct offer *
join_name(const char *name)
{
	struct offer *offer = find(name);

	ck_assert_ptr_nonnull(offer);
	ck_assert_uint_eq(join(offer), 0);
	return offer;
}

/* ---- what clients find */

START_TEST(name_means_only_the_export_that_has_it)
{
	struct nbd_refusal refusal = {0};

	add("disk", 0);
	add("disk2", 1);
	ck_assert_ptr_eq(exports_listed.find(&applicant, "disk and more", 4, &refusal),
			 &find("disk")->facts);
	ck_assert_str_eq(find("disk2")->facts.name, "disk2");
	ck_assert_ptr_null(find("dis"));
	ck_assert_ptr_null(find("disk3"));
	ck_assert_ptr_null(find("DISK"));
}
END_TEST

START_TEST(no_name_means_the_only_export)
{
	ck_assert_ptr_null(find(""));
	add("disk", 0);
	ck_assert_ptr_eq(find(""), find("disk"));
	add("other", 1);
	ck_assert_ptr_null(find(""));
}
END_TEST

START_TEST(list_has_each_export_once)
{
	add("disk", 0);
	add("other", 1);
	ck_assert_str_eq(exports_listed.list(&applicant, 0)->name, "disk");
	ck_assert_str_eq(exports_listed.list(&applicant, 1)->name, "other");
	ck_assert_ptr_null(exports_listed.list(&applicant, 2));
	ck_assert_ptr_null(exports_unlisted.list);
}
END_TEST

START_TEST(read_only_export_says_so)
{
	char *error;

	choose(configure("disk", 0), "read-only", "on");
	ck_assert_int_eq(add_configured(&error), 0);
	ck_assert(find("disk")->facts.flags & NBD_FLAG_READ_ONLY);
	add("other", 1);
	ck_assert(!(find("other")->facts.flags & NBD_FLAG_READ_ONLY));
}
END_TEST

/* ---- adding */

START_TEST(file_that_is_missing_is_an_error_that_names_it)
{
	char *error;

	choose(configure("disk", 0), "file", "/nowhere/disk.img");
	ck_assert_int_eq(add_configured(&error), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, "/nowhere/disk.img"));
	ck_assert_ptr_null(find("disk"));
	free(error);
}
END_TEST

/* Its image is served as before. */
START_TEST(snapshot_that_is_not_made_refuses_no_image)
{
	const struct snapshot_request request = {.name = "not UTF-8: \xff", .scratch = "/tmp"};
	char *error;

	event_capture_begin();
	add("a", 0);
	ck_assert_int_eq(exports_snapshot(exports, &request, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "UTF-8"));
	free(error);
	ck_assert(!event_capture_has(&(struct event){.kind = EVENT_REFUSED}));
	event_capture_end();
}
END_TEST

START_TEST(second_export_of_a_name_is_refused)
{
	struct offer *first;
	char *error;

	add("disk", 0);
	first = find("disk");
	configure("disk", 1);
	ck_assert_int_eq(add_configured(&error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "\"disk\""));
	ck_assert_ptr_eq(find("disk"), first);
	free(error);
}
END_TEST

/* Each of the two would write what the other's cache of facts does not know. */
START_TEST(second_export_of_an_image_is_refused)
{
	char *error;

	add("disk", 0);
	configure("other", 0);
	ck_assert_int_eq(add_configured(&error), -EBUSY);
	ck_assert_ptr_nonnull(strstr(error, "the export \"disk\""));
	ck_assert_ptr_null(find("other"));
	free(error);
}
END_TEST

START_TEST(parts_of_an_image_that_do_not_meet_are_two_exports)
{
	char *error;

	choose(configure("first", 0), "sizelimit", "32k");
	ck_assert_int_eq(add_configured(&error), 0);
	choose(configure("second", 0), "offset", "32k");
	ck_assert_int_eq(add_configured(&error), 0);
	choose(configure("third", 0), "offset", "28k");
	ck_assert_int_eq(add_configured(&error), -EBUSY);
	free(error);
}
END_TEST

START_TEST(shared_lock_allows_a_second_export_that_reads)
{
	char *error;

	for (unsigned int i = 0; i < 2; i++) {
		struct export_config *export = configure(i ? "other" : "disk", 0);

		choose(export, "read-only", "on");
		ck_assert_int_eq(add_configured(&error), 0);
	}
	configure("writer", 0);
	ck_assert_int_eq(add_configured(&error), -EBUSY);
	free(error);
}
END_TEST

/* ---- removing */

START_TEST(removed_export_stays_for_its_clients_alone)
{
	struct offer *offer;

	add("disk", 0);
	offer = join_name("disk");
	ck_assert_int_eq(exports_remove(exports, "disk"), 0);
	ck_assert_ptr_null(find("disk"));
	ck_assert_uint_eq(join(offer), NBD_REP_ERR_UNKNOWN);
	exports_reap(exports);
	ck_assert_str_eq(offer->facts.name, "disk");
	ck_assert_uint_eq(offer->connections, 1);
	ck_assert_int_eq(exports_remove(exports, "disk"), -ENOENT);
	leave(offer);
}
END_TEST

START_TEST(image_of_a_removed_export_is_free_after_its_last_client)
{
	struct offer *offer;
	char *error;

	add("disk", 0);
	offer = join_name("disk");
	ck_assert_int_eq(exports_remove(exports, "disk"), 0);
	configure("again", 0);
	ck_assert_int_eq(add_configured(&error), -EBUSY);
	ck_assert_ptr_nonnull(strstr(error, "1 client of the removed export \"disk\""));
	free(error);
	leave(offer);
	add("again", 0);
}
END_TEST

/* Without it nobody would free what is left of the export. */
START_TEST(last_client_of_a_retired_offer_wakes_the_server)
{
	struct offer *listed, *retired;
	unsigned int before;

	add("disk", 0);
	add("other", 1);
	listed = join_name("disk");
	retired = join_name("other");
	ck_assert_uint_eq(join(retired), 0);
	ck_assert_int_eq(exports_remove(exports, "other"), 0);
	before = atomic_load(&wakes);
	leave(retired);
	ck_assert_uint_eq(atomic_load(&wakes), before);
	leave(retired);
	ck_assert_uint_eq(atomic_load(&wakes), before + 1);
	leave(listed);
}
END_TEST

/* ---- changing */

static void
count_visits(void *data, const struct visited *visited)
{
	*(unsigned int *)data += visited->connections;
}

/* A client's size must not change under it; the next one is told the new one. */
START_TEST(resized_export_has_a_new_offer)
{
	struct offer *old;
	unsigned int connections = 0;
	char *error;

	add("disk", 0);
	old = join_name("disk");
	ck_assert_int_eq(ftruncate(files[0], 128 * KIB), 0);
	ck_assert_int_eq(exports_resize(exports, "disk", &error), 0);
	ck_assert_uint_eq(old->facts.size, 64 * KIB);
	ck_assert_uint_eq(find("disk")->facts.size, 128 * KIB);
	ck_assert_uint_eq(join(old), NBD_REP_ERR_UNKNOWN);
	ck_assert_uint_eq(join_name("disk")->facts.size, 128 * KIB);
	ck_assert_uint_eq(exports_visit(exports, "disk", count_visits, &connections), 1);
	ck_assert_uint_eq(connections, 2);
	leave(old);
	leave(find("disk"));
}
END_TEST

START_TEST(offer_stays_when_nothing_has_changed)
{
	struct offer *offer;
	char *error;

	add("disk", 0);
	offer = find("disk");
	ck_assert_int_eq(exports_resize(exports, NULL, &error), 0);
	ck_assert_ptr_eq(find("disk"), offer);
}
END_TEST

START_TEST(change_without_a_name_is_for_the_only_export)
{
	char *error;

	add("disk", 0);
	add("other", 1);
	ck_assert_int_eq(exports_resize(exports, NULL, &error), -ENOENT);
	ck_assert_int_eq(exports_resize(exports, "none", &error), -ENOENT);
	ck_assert_int_eq(exports_resize(exports, "other", &error), 0);
}
END_TEST

/* ---- reading the configuration again */

START_TEST(reload_counts_each_export_once)
{
	struct reload_summary summary;

	add("disk", 0);
	find("disk")->export->reopens = true;
	choose(configure("disk", 0), "file", "/nowhere/disk.img");
	configure("other", 1);
	summary = exports_reload(exports, &config);
	ck_assert_uint_eq(summary.added, 1);
	ck_assert_uint_eq(summary.failed, 1);
	ck_assert_ptr_nonnull(strstr(summary.error, "/nowhere/disk.img"));
	free(summary.error);
	ck_assert_uint_eq(summary.reopened, 0);
	ck_assert_uint_eq(summary.changed, 0);
	ck_assert_uint_eq(summary.removed, 0);
	find("other")->export->reopens = true;
	configure("disk", 0);
	configure("other", 1);
	summary = exports_reload(exports, &config);
	ck_assert_uint_eq(summary.added, 1);
	ck_assert_uint_eq(summary.reopened, 1);
	ck_assert_uint_eq(summary.failed, 0);
	configure("disk", 0);
	configure("other", 1);
	summary = exports_reload(exports, &config);
	ck_assert_uint_eq(summary.added + summary.changed + summary.removed + summary.reopened +
				  summary.failed,
			  0);
	ck_assert_ptr_null(summary.error);
}
END_TEST

START_TEST(reload_adds_and_removes)
{
	struct offer *kept;

	add("disk", 0);
	kept = find("disk");
	configure("disk", 0);
	configure("other", 1);
	exports_reload(exports, &config);
	ck_assert_ptr_eq(find("disk"), kept);
	ck_assert_ptr_nonnull(find("other"));
	configure("other", 1);
	exports_reload(exports, &config);
	ck_assert_ptr_null(find("disk"));
	ck_assert_ptr_nonnull(find("other"));
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(reload_says_what_needs_a_restart)
{
	struct offer *kept;

	add("disk", 0);
	kept = find("disk");
	choose(configure("disk", 0), "description", "another text");
	exports_reload(exports, &config);
	ck_assert_ptr_eq(find("disk"), kept);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "export \"disk\": description has changed"));
}
END_TEST

START_TEST(reload_goes_on_after_an_export_that_cannot_be_opened)
{
	choose(configure("broken", 0), "file", "/nowhere/disk.img");
	configure("disk", 1);
	free(exports_reload(exports, &config).error);
	ck_assert_ptr_null(find("broken"));
	ck_assert_ptr_nonnull(find("disk"));
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "/nowhere/disk.img"));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "finding", .begin = begin, .end = end},
		{.test = name_means_only_the_export_that_has_it},
		{.test = no_name_means_the_only_export},
		{.test = list_has_each_export_once},
		{.test = read_only_export_says_so},

		{.name = "adding", .begin = begin, .end = end},
		{.test = file_that_is_missing_is_an_error_that_names_it},
		{.test = snapshot_that_is_not_made_refuses_no_image},
		{.test = second_export_of_a_name_is_refused},
		{.test = second_export_of_an_image_is_refused},
		{.test = parts_of_an_image_that_do_not_meet_are_two_exports},
		{.test = shared_lock_allows_a_second_export_that_reads},

		{.name = "removing", .begin = begin, .end = end},
		{.test = removed_export_stays_for_its_clients_alone},
		{.test = image_of_a_removed_export_is_free_after_its_last_client},
		{.test = last_client_of_a_retired_offer_wakes_the_server},

		{.name = "changing", .begin = begin, .end = end},
		{.test = resized_export_has_a_new_offer},
		{.test = offer_stays_when_nothing_has_changed},
		{.test = change_without_a_name_is_for_the_only_export},

		{.name = "reloading", .begin = begin, .end = end},
		{.test = reload_adds_and_removes},
		{.test = reload_counts_each_export_once},
		{.test = reload_says_what_needs_a_restart},
		{.test = reload_goes_on_after_an_export_that_cannot_be_opened},
		{0},
	};

	return suite_run("exports", cases);
}
