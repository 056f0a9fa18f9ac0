/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command lines of the two server programs, and their messages, which are passed on.
 */
#include "tool/link/server_command.h"

#include "tool/link/server_process.h"

#include "common/log.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static GPtrArray *options;

static void
begin(void)
{
	options = g_ptr_array_new();
	g_ptr_array_add(options, (char *)(uintptr_t) "--threads=2");
	g_ptr_array_add(options, (char *)(uintptr_t) "--offset=512");
	g_ptr_array_add(options, (char *)(uintptr_t) "--swap");
	g_ptr_array_add(options, (char *)(uintptr_t) "--read-only");
}

static void
end(void)
{
	g_ptr_array_unref(options);
}

static void
assert_words(const struct server_command *command, const char *wanted)
{
	g_auto(GStrv) words = server_command_words(command);
	g_autofree char *program = server_command_program(command->kind);
	g_autofree char *text = g_strjoinv(" ", words + 1);

	ck_assert_str_eq(words[0], program);
	ck_assert_str_eq(text, wanted);
}

START_TEST(nbdloopd_is_given_a_socket_for_connections)
{
	const struct server_command command = {
		.kind = SERVER_NBDLOOPD,
		.control = "/run/c.sock",
		.direct_io = "auto",
		.options = options,
		.image = "/srv/-disk.img",
	};

	assert_words(
		&command,
		"@nbdloopd --fd-from=3 --notify-fd=4 --control=/run/c.sock --direct-io=auto --sandbox=off --threads=2 --offset=512 --swap "
		"--read-only -- /srv/-disk.img");
}
END_TEST

START_TEST(nbdkit_is_told_its_own_options_before_the_plugins_keys)
{
	const struct server_command command = {
		.kind = SERVER_NBDKIT,
		.control = "/run/c.sock",
		.direct_io = "on",
		.options = options,
		.image = "/srv/-disk.img",
	};

	assert_words(
		&command,
		"@nbdkit --foreground --filter=exitlast --threads=2 --read-only loop file=/srv/-disk.img notify-fd=4 "
		"control=/run/c.sock direct-io=on offset=512 swap=on");
}
END_TEST

START_TEST(image_that_became_read_only_is_told_so)
{
	const struct server_command command = {
		.kind = SERVER_NBDKIT,
		.direct_io = "off",
		.options = options,
		.read_only = true,
		.force = true,
		.image = "/disk",
	};

	g_ptr_array_set_size(options, 0);
	assert_words(
		&command,
		"@nbdkit --foreground --filter=exitlast --read-only loop file=/disk notify-fd=4 direct-io=off force=on");
}
END_TEST

START_TEST(server_in_ceph_takes_the_place_of_another)
{
	struct server_command command = {
		.direct_io = "auto",
		.options = options,
		.ceph_fence = "192.0.2.7:0/1+free",
		.image = "rbd:p/i",
	};

	g_ptr_array_set_size(options, 0);
	assert_words(
		&command,
		"@nbdloopd --fd-from=3 --notify-fd=4 --direct-io=auto --sandbox=off --ceph-lock=start "
		"--ceph-fence=192.0.2.7:0/1+free -- rbd:p/i");
	command.kind = SERVER_NBDKIT;
	assert_words(
		&command,
		"@nbdkit --foreground --filter=exitlast loop file=rbd:p/i notify-fd=4 direct-io=auto "
		"ceph-lock=start ceph-fence=192.0.2.7:0/1+free");
}
END_TEST

START_TEST(options_of_an_image_in_ceph_are_not_for_a_file_in_its_place)
{
	struct server_command command = {
		.direct_io = "auto",
		.options = options,
		.image = "rbd:p/i",
	};

	g_ptr_array_set_size(options, 0);
	g_ptr_array_add(options, (char *)(uintptr_t) "--ceph-conf=/c");
	g_ptr_array_add(options, (char *)(uintptr_t) "--cluster-timeout=5");
	assert_words(
		&command,
		"@nbdloopd --fd-from=3 --notify-fd=4 --direct-io=auto --sandbox=off --ceph-conf=/c "
		"--cluster-timeout=5 --ceph-lock=start -- rbd:p/i");
	command.image = "/disk";
	assert_words(&command,
		     "@nbdloopd --fd-from=3 --notify-fd=4 --direct-io=auto --sandbox=off -- /disk");
	command.kind = SERVER_NBDKIT;
	assert_words(&command, "@nbdkit --foreground --filter=exitlast loop file=/disk notify-fd=4 "
			       "direct-io=auto");
}
END_TEST

static void
hear(int level, const char *text, void *data)
{
	g_string_append_printf(data, "%s:%s\n",
			       level == LOG_LEVEL_ERROR     ? "E"
			       : level == LOG_LEVEL_WARNING ? "W"
							    : "I",
			       text);
}

static void
hear_event(const struct event *event, void *data)
{
	g_string_append_printf(data, "event:%s\n", event_names[event->kind]);
}

START_TEST(lines_of_both_servers_are_passed_on_without_names)
{
	static char script[] =
		"printf '%s\\n' 'nbdloopd: error: a: b' 'nbdloopd: warning: c' 'nbdloopd: loop.img: 1 byte' "
		"'nbdkit: error: d' 'nbdkit: loop.0: error: e' 'nbdkit: loop[1]: error: warning: f' "
		"'nbdkit: loop: loop.img: 1 byte' 'else' >&2";
	char *words[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "@sh",
			 (char *)(uintptr_t) "-c", script, NULL};
	g_autoptr(GString) heard = g_string_new(NULL);
	const struct server_listener listener = {hear, hear_event, heard};
	struct server_process server;
	g_autoptr(GError) error = NULL;

	server_process_init(&server);
	ck_assert(server_process_start(&server, words, -1, false, &error));
	server_process_end(&server, 10000);
	server_process_listen(&server, &listener);
	server_process_fini(&server);
	ck_assert_str_eq(
		heard->str,
		"E:a: b\nW:c\nI:loop.img: 1 byte\nE:d\nE:e\nW:f\nI:loop.img: 1 byte\nI:else\n");
}
END_TEST

/* sd_listen_fds(3). */
START_TEST(listening_socket_is_told_as_systemd_does)
{
	static char script[] =
		"[ $LISTEN_FDS = 1 ] && [ $LISTEN_PID = $$ ] && [ -S /proc/self/fd/3 ] && echo told >&2; "
		"echo '{\"event\":\"ending\"}' >&4";
	char *words[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "@sh",
			 (char *)(uintptr_t) "-c", script, NULL};
	g_autoptr(GString) heard = g_string_new(NULL);
	const struct server_listener listener = {hear, hear_event, heard};
	int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct server_process server;
	g_autoptr(GError) error = NULL;

	server_process_init(&server);
	ck_assert(server_process_start(&server, words, socket_fd, true, &error));
	server_process_end(&server, 10000);
	server_process_listen(&server, &listener);
	server_process_fini(&server);
	close(socket_fd);
	ck_assert_str_eq(heard->str, "I:told\nevent:ending\n");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "told", .begin = begin, .end = end},
		{.test = nbdloopd_is_given_a_socket_for_connections},
		{.test = nbdkit_is_told_its_own_options_before_the_plugins_keys},
		{.test = image_that_became_read_only_is_told_so},
		{.test = server_in_ceph_takes_the_place_of_another},
		{.test = options_of_an_image_in_ceph_are_not_for_a_file_in_its_place},
		{.test = lines_of_both_servers_are_passed_on_without_names},
		{.test = listening_socket_is_told_as_systemd_does},
		{0},
	};

	return suite_run("server_command", cases);
}
