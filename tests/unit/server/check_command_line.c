/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloopd's command line and configuration file.
 */
#include "server/config/command_line.h"
#include "server/config/server_uri.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32

static struct command_line line;
static struct server_config config;
static char *arguments[ARGUMENTS_MAX];
static char *error;
static char config_path[] = "check_command_line.conf";

/* Parses the arguments, up to NULL, as the program does. */
static int
configure(const char *first, ...)
{
	va_list rest;
	int count = 1, r;

	arguments[0] = strdup("nbdloopd");
	va_start(rest, first);
	for (const char *text = first; text; text = va_arg(rest, const char *)) {
		ck_assert_int_lt(count, ARGUMENTS_MAX - 1);
		arguments[count++] = strdup(text);
	}
	va_end(rest);
	arguments[count] = NULL;
	error = NULL;
	r = command_line_parse(&line, count, arguments, &error);
	return r < 0 ? r : command_line_configure(&line, &config, &error);
}

static void
forget(bool configured)
{
	if (configured)
		config_fini(&config);
	command_line_fini(&line);
	for (int i = 0; arguments[i]; i++)
		free(arguments[i]);
	arguments[0] = NULL;
	free(error);
}

#define assert_configured(...)                                                                     \
	ck_assert_msg(configure(__VA_ARGS__, NULL) == 0, "refused: %s", error)

/* The error contains `hint`. */
#define assert_refused(hint, ...)                                                                  \
	do {                                                                                       \
		ck_assert_int_lt(configure(__VA_ARGS__, NULL), 0);                                 \
		ck_assert_msg(error &&strstr(error, hint), "'%s' doesn't tell '%s'", error, hint); \
		forget(false);                                                                     \
	} while (0)

static void
write_config(const char *text)
{
	FILE *file = fopen(config_path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
}

static const struct export_config *
nth_export(unsigned int n)
{
	const struct export_config *export = config.exports;

	while (n-- > 0 && export)
		export = export->next;
	ck_assert_ptr_nonnull(export);
	return export;
}

START_TEST(one_image_is_the_export_without_a_name)
{
	assert_configured("disk.img");
	ck_assert_str_eq(nth_export(0)->name, "");
	ck_assert_str_eq(nth_export(0)->file, "disk.img");
	ck_assert_ptr_null(nth_export(0)->next);
	ck_assert_uint_eq(config.max_connections, 100);
	ck_assert_uint_eq(config.handshake_limit, 10);
	ck_assert_uint_eq(config.stuck_limit, 30);
	ck_assert_ptr_null(config.unix_socket);
	forget(true);
}
END_TEST

START_TEST(options_may_stand_behind_the_image_and_be_short)
{
	assert_configured("disk.img", "-rU", "a.sock", "-p10810", "--unix=b.sock", "--swap",
			  "--offset", "1M");
	ck_assert_uint_eq(nth_export(0)->read_only, TRISTATE_ON);
	ck_assert_uint_eq(nth_export(0)->image.offset, 1 << 20);
	ck_assert_str_eq(config.unix_socket[0], "a.sock");
	ck_assert_str_eq(config.unix_socket[1], "b.sock");
	ck_assert_ptr_null(config.unix_socket[2]);
	ck_assert_uint_eq(config.port, 10810);
	ck_assert_uint_eq(config.swap, TRISTATE_ON);
	forget(true);
	assert_configured("--read-only=yes", "--list=false", "a.img");
	ck_assert_uint_eq(nth_export(0)->read_only, TRISTATE_ON);
	ck_assert_uint_eq(config.list, TRISTATE_OFF);
	forget(true);
	assert_configured("--read-only=off", "--", "-strange.img");
	ck_assert_uint_eq(nth_export(0)->read_only, TRISTATE_OFF);
	ck_assert_str_eq(nth_export(0)->file, "-strange.img");
	forget(true);
}
END_TEST

START_TEST(exports_have_common_options_and_their_own)
{
	assert_configured("--depth=3", "--export", "a=x.img,depth=5,description=b,,c", "--export",
			  "=y,,z.img", "-r", "--export", "d=p=q.img");
	ck_assert_str_eq(nth_export(0)->name, "a");
	ck_assert_uint_eq(nth_export(0)->image.depth, 5);
	ck_assert_str_eq(nth_export(0)->description, "b,c");
	ck_assert_uint_eq(nth_export(0)->read_only, TRISTATE_ON);
	ck_assert_str_eq(nth_export(1)->name, "");
	ck_assert_str_eq(nth_export(1)->file, "y,z.img");
	ck_assert_uint_eq(nth_export(1)->image.depth, 3);
	ck_assert_str_eq(nth_export(2)->file, "p=q.img");
	forget(true);
}
END_TEST

START_TEST(wrong_command_lines_are_explained)
{
	assert_refused("there is no image", "--threads=1");
	assert_refused("one image too many: b", "a", "b");
	assert_refused("unknown or ambiguous option --nonsense", "--nonsense", "a");
	assert_refused("unknown option -X", "-X", "a");
	assert_refused("--port needs a value", "a", "--port");
	assert_refused("--unix needs a value", "a", "-U");
	assert_refused("--depth=0: must be a whole number from 1 to 1024", "--depth=0", "a");
	assert_refused("--export a: must be NAME=PATH", "--export", "a");
	assert_refused("two exports named \"a\"", "--export", "a=x", "--export", "a=y");
	assert_refused("two exports named \"\"", "--export", "=x", "y");
	assert_refused("--run and --fork exclude each other", "--run=true", "--fork", "a");
	assert_refused("--run needs a value", "a", "--run");
	assert_refused("\"b\" is not OPTION=VALUE", "--export", "a=x,b");
	assert_refused("unknown option b; if it", "--export", "a=x,b=1");
	assert_refused("unknown option readonly; did you mean read-only?", "--export",
		       "a=x,readonly=on");
	ck_assert_int_lt(configure("--export", "a=x,readonly=on", NULL), 0);
	ck_assert_str_eq(strchr(error, ';'), "; did you mean read-only?");
	forget(false);
	assert_refused("option --read_only=on; did you mean read-only?", "--read_only=on", "a");
	assert_refused("option --thread-s; did you mean threads?", "--thread-s", "a");
	assert_refused("unknown option threads", "--export", "a=x,threads=1");
	assert_refused("depth=x: must be", "--export", "a=x,depth=x");
	assert_refused("has no image", "--export", "a=");
}
END_TEST

START_TEST(help_and_version_need_nothing_else)
{
	ck_assert_int_eq(configure("--help", NULL), -EINVAL);
	ck_assert_uint_eq(line.help, 1);
	forget(false);
	ck_assert_int_eq(configure("-V", NULL), -EINVAL);
	ck_assert_uint_eq(line.version, 1);
	forget(false);
}
END_TEST

/* PATH is that of the unix socket, or NULL. */
#define assert_uri(wanted, path, ...)                                                              \
	do {                                                                                       \
		char *uri;                                                                         \
                                                                                                   \
		assert_configured(__VA_ARGS__);                                                    \
		uri = server_uri(&config, path);                                                   \
		ck_assert_str_eq(uri, wanted);                                                     \
		free(uri);                                                                         \
		forget(true);                                                                      \
	} while (0)

START_TEST(uri_names_the_first_address_and_export)
{
	assert_uri("nbd+unix:///?socket=/tmp/a.sock", "/tmp/a.sock", "-Ua.sock", "-p1234", "x");
	assert_uri("nbd+unix:///a%20%3F%25?socket=/tmp/%26%3D%C3%A9", "/tmp/&=\u00e9", "-U", "y",
		   "--export", "a ?%=x", "--export", "b=y");
	assert_uri("nbd://localhost:10809/", NULL, "x");
	assert_uri("nbd://localhost:1234/b", NULL, "-p1234", "--export", "b=x");
	assert_uri("nbd://localhost:10809/", NULL, "--address=any", "x");
	assert_uri("nbd://[fe80::1%25eth0]:10809/", NULL, "--address=fe80::1%eth0", "x");
	assert_uri("nbd://[::1]:10809/", NULL, "--address=[::1]", "--address=any", "x");
	assert_uri("nbd+vsock://1:99/", NULL, "--vsock=99", "x");
	assert_uri("nbds://localhost:10809/", NULL, "--tls-psk=k", "-p10809", "x");
	assert_uri("nbd+unix:///?socket=/s", "/s", "--tls-psk=k", "-U/s", "x");
	assert_uri("nbds+unix:///?socket=/s", "/s", "--tls-psk=k", "--tls=require", "-U/s", "x");
	assert_uri("nbd://localhost:10809/", NULL, "--tls-psk=k", "--tls=allow", "-p10809", "x");
}
END_TEST

/* The launcher of --run and --fork does the same to each configuration. */
START_TEST(launcher_adds_its_socket_and_its_log)
{
	static const char *const addresses[] = {"-Ux", "-p1", "--address=any", "--vsock=9"};
	struct server_config again;
	bool names;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		assert_configured(addresses[i], "a.img");
		names = config_names_address(&config);
		ck_assert(names);
		forget(true);
	}

	assert_configured("--run=true", "a.img");
	names = config_names_address(&config);
	ck_assert(!names);
	line.private_socket = strdup("/tmp/x/socket");
	line.detached = true;
	ck_assert_int_eq(command_line_configure(&line, &again, &error), 0);
	ck_assert_str_eq(again.unix_socket[0], "/tmp/x/socket");
	ck_assert_ptr_null(again.unix_socket[1]);
	ck_assert_uint_eq(again.log, LOG_TO_SYSLOG);
	ck_assert(config_names_address(&again));
	config_fini(&again);
	forget(true);
}
END_TEST

START_TEST(file_has_sections_comments_and_blanks)
{
	/* After a byte order mark. */
	write_config("\xEF\xBB\xBF# comment\n"
		     "\n"
		     "[server]\r\n"
		     "  threads=3\n"
		     "unix = a b.sock  \n"
		     "\tunix=c.sock\n"
		     "depth = 7\n"
		     "; [server]\n"
		     "[ export  one two ]\n"
		     "file = x = y.img\n"
		     "description = # no comment\n"
		     "[export]\n"
		     "file=z.img\n"
		     "depth=2");
	assert_configured("--config", config_path);
	ck_assert_uint_eq(config.threads, 3);
	ck_assert_str_eq(config.unix_socket[0], "a b.sock");
	ck_assert_str_eq(config.unix_socket[1], "c.sock");
	ck_assert_str_eq(nth_export(0)->name, "one two");
	ck_assert_str_eq(nth_export(0)->file, "x = y.img");
	ck_assert_str_eq(nth_export(0)->description, "# no comment");
	ck_assert_uint_eq(nth_export(0)->image.depth, 7);
	ck_assert_str_eq(nth_export(1)->name, "");
	ck_assert_uint_eq(nth_export(1)->image.depth, 2);
	ck_assert_ptr_null(nth_export(1)->next);
	forget(true);
}
END_TEST

START_TEST(command_line_goes_before_the_server_section)
{
	/* The section comes last, and its options are the exports' defaults nevertheless. */
	write_config("[export a]\nfile = a.img\n[export b]\nfile = b.img\ndepth = 2\n"
		     "[server]\nthreads = 3\ndepth = 7\ndiscard = off\nunix = f.sock\n");
	assert_configured("--threads=5", "--depth=9", "-c", config_path, "-U", "l.sock", "c.img");
	ck_assert_uint_eq(config.threads, 5);
	ck_assert_str_eq(config.unix_socket[0], "f.sock");
	ck_assert_str_eq(config.unix_socket[1], "l.sock");
	ck_assert_uint_eq(nth_export(0)->image.depth, 9);
	ck_assert_uint_eq(nth_export(0)->image.discard, TRISTATE_OFF);
	ck_assert_uint_eq(nth_export(1)->image.depth, 2);
	ck_assert_str_eq(nth_export(2)->file, "c.img");
	ck_assert_uint_eq(nth_export(2)->image.discard, TRISTATE_OFF);
	forget(true);
}
END_TEST

/* A default holds for exports that have no rules of their own, each option by itself. */
START_TEST(rules_have_defaults_and_are_read_for_each_export)
{
	write_config("[server]\nallow = uid:1, uid:2\nallow-write = uid:1\n"
		     "[export a]\nfile = a.img\n"
		     "[export b]\nfile = b.img\nallow = any\n"
		     "[export c]\nfile = c.img\nallow = none\nallow-write=none\n");
	assert_configured("-c", config_path, "--export", "d=d.img,allow=uid:4 uid:5");
	ck_assert_str_eq(nth_export(0)->access->allow, "uid:1, uid:2");
	ck_assert_str_eq(nth_export(0)->access->allow_write, "uid:1");
	ck_assert_str_eq(nth_export(1)->access->allow, "any");
	ck_assert_str_eq(nth_export(1)->access->allow_write, "uid:1");
	ck_assert_str_eq(nth_export(2)->access->allow_write, "none");
	ck_assert_str_eq(nth_export(3)->access->allow, "uid:4 uid:5");
	/* Rules take effect without a restart. */
	ck_assert_str_eq(export_config_difference(nth_export(0), nth_export(1)), "file");
	forget(true);
	assert_configured("--allow", "uid:0", "a.img");
	ck_assert_str_eq(nth_export(0)->access->allow, "uid:0");
	ck_assert_ptr_null(nth_export(0)->access->allow_write);
	forget(true);
	assert_configured("a.img");
	ck_assert_ptr_null(nth_export(0)->access);
	forget(true);
	/* Clients prove themselves as the server lets them. */
	assert_configured("--tls-psk=f", "--allow=psk:a", "a.img");
	forget(true);
	assert_configured("--tls-certificates=d", "--allow=cn:a san:dns:b", "a.img");
	forget(true);
	assert_refused("needs tls-psk", "--tls-certificates=d", "--allow=psk:a", "a.img");
	assert_refused("need tls-certificates", "--tls-psk=f", "--allow=cn:a", "a.img");
	assert_refused("need tls-certificates", "--tls-certificates=d", "--tls-verify-peer=off",
		       "--allow=san:dns:a", "a.img");
	assert_refused("needs tls-psk", "--tls-psk=f", "--tls=off", "--allow=psk:a", "a.img");
}
END_TEST

START_TEST(file_is_read_anew_each_time)
{
	struct server_config again;

	write_config("[export a]\nfile = a.img\n");
	assert_configured("-c", config_path);
	write_config("[server]\nthreads = 2\n[export a]\nfile = a.img\ndepth = 3\n");
	ck_assert_int_eq(command_line_configure(&line, &again, &error), 0);
	ck_assert_uint_eq(again.threads, 2);
	ck_assert_str_eq(export_config_difference(config.exports, again.exports), "depth");
	ck_assert_ptr_null(export_config_difference(config.exports, config.exports));
	config_fini(&again);
	forget(true);
}
END_TEST

static const struct {
	const char *text, *hint;
} bad_files[] = {
	{"threads = 2\n", ":1: a section must come first"},
	{"[server]\nthreads\n", ":2: \"threads\" is neither"},
	{"[server\n", ":1: a section is [server]"},
	{"[]\n", ":1: unknown section []"},
	{"[exports]\n", ":1: unknown section [exports]"},
	{"[server]\n\ncolor = red\n", ":3: unknown option color"},
	{"[server]\nfile = a\n", ":2: file belongs in a section [export NAME]"},
	{"[server]\n= 2\n", ":2: unknown option "},
	{"[server]\nconfig = x\n", ":2: unknown option config"},
	{"[server]\nthread = 2\n", ":2: unknown option thread; did you mean threads?"},
	{"[server]\ndirectio = on\n", ":2: unknown option directio; did you mean direct-io?"},
	{"[export a]\nfiel = a\n", ":2: unknown option fiel; did you mean file?"},
	{"[export a]\nfile = a\nread-only = maybe\n", ":3: read-only=maybe: must be one of"},
	{"[export a]\nfile = a\nunix = x\n", ":3: unix belongs in the section [server]"},
	{"[export a]\nfile = a\nfile = b\n", ":3: file is already set in line 2"},
	{"[export a]\nfile = a\n[export  a]\nfile = b\n", ":3: there are two exports named \"a\""},
	{"[export a]\nfile = a\ndepth = 2000\n", ":3: depth=2000: must be"},
	{"[export b]\nfile = b\n[export a]\nfile =\n", ":3: the export \"a\" has no image"},
	{"[export a]\nfile = a\nallow = uid:1\nallow = uid:2\n",
	 ":4: allow is already set in line 3"},
	{"[export a]\nfile = a\nallow = user:x-x-x\n",
	 ":3: export \"a\": allow: user:x-x-x: there is no user"},
	{"[export a]\nfile = a\nallow-write =\n",
	 ":3: export \"a\": allow-write is empty: write any for all"},
	{"[export a]\nfile = a\nallow = psk:alice\n",
	 ":3: export \"a\": allow=psk:alice: no client of this server"},
	{"[server]\nthreads = 1\nallow = uid:x\n[export a]\nfile = a\n",
	 ":3: export \"a\": allow: uid:x"},
	{"[export b]\nfile = b\nallow = any\n[server]\nallow = uid:x\n[export a]\nfile = a\n",
	 ":5: export \"a\": allow: uid:x"},
	{"[export b]\nfile = b\niops-limit = 5\n[export a]\nfile = a\niops-limit = fast\n",
	 ":6: export \"a\": iops-limit=fast: must be"},
	{"[export a]\nfile = a\nclient-bandwidth-limit = 1\n",
	 ":3: export \"a\": client-bandwidth-limit=1: "},
	{"[export a]\nfile = a\n[server]\ntls = require\n", ":4: tls=require needs certificates"},
	{"[server]\nhttp-token = f\n[export a]\nfile = a\n", ":2: http-token=FILE is only for"},
	{"[server]\nhttp = x\n[export a]\nfile = a\n", ":2: http=x: "},
	{"[server]\nlist = on\nunix = s\nunix = t\nunix = s\n[export a]\nfile = a\n",
	 ":3: unix=s is given twice"},
	{"[server]\nthreads = \"4\"\n",
	 ":2: threads=\"4\": must be a whole number from 0 to 1024; quotes belong to the value"},
	{"[server]\nthreads = 4 # all\n", "; a comment after a value belongs to the value"},
	{"[server]\nlist = on\t; no\n", "; a comment after a value belongs to the value"},
	{"[export a]\nfile = a\nallow = user:root # me\n",
	 "; a comment after a value belongs to the value: give it a line of its own"},
	{"[export a]\nfile = a\niops-limit = '100'\n", "; quotes belong to the value"},
	{"", "there is no image"},
};

START_TEST(errors_in_the_file_name_the_line)
{
	write_config(bad_files[_i].text);
	assert_refused(bad_files[_i].hint, "-c", config_path);
}
END_TEST

/* An option of the command line is not blamed on the file's line. */
START_TEST(errors_of_the_command_line_name_no_line)
{
	write_config("[server]\ntls = off\n[export a]\nfile = a\n");
	ck_assert_int_lt(configure("-c", config_path, "--tls=allow", NULL), 0);
	ck_assert_int_eq(strncmp(error, "tls=allow needs", strlen("tls=allow needs")), 0);
	forget(false);
	ck_assert_int_lt(configure("-c", config_path, "--export", "b=x,iops-limit=y", NULL), 0);
	ck_assert_int_eq(strncmp(error, "export \"b\": iops", strlen("export \"b\": iops")), 0);
	forget(false);
	/* The file's value is another one: a beginning of it, and one that the sentence hides. */
	write_config("[server]\niops-limit = burst:5\nhttp-token = f\n[export a]\nfile = a\n"
		     "iops-limit = 9\n");
	ck_assert_int_lt(configure("-c", config_path, "--export", "b=x,iops-limit=burst:50", NULL),
			 0);
	ck_assert_int_eq(strncmp(error, "export \"b\": iops", strlen("export \"b\": iops")), 0);
	forget(false);
	write_config("[server]\nhttp-token = f\n[export a]\nfile = a\n");
	ck_assert_int_lt(configure("-c", config_path, "--http-token=g", NULL), 0);
	ck_assert_int_eq(strncmp(error, "http-token=FILE", strlen("http-token=FILE")), 0);
	forget(false);
	write_config("[server]\niops-limit = burst:5\n[export a]\nfile = a\n");
	ck_assert_int_lt(configure("-c", config_path, "--iops-limit=burst:6", NULL), 0);
	ck_assert_ptr_null(strstr(error, ":2: "));
	forget(false);
}
END_TEST

static const struct {
	const char *line;
	bool warns;
} strays[] = {
	{"file = \"/a.img\"", true},        {"file = '/a.img'", true},
	{"file = /a.img # web", true},      {"file = /a#b;c.img", false},
	{"file = #a.img", false},           {"file = \"", false},
	{"description = \"Debian\"", true}, {"description = Debian #2; the old one", false},
	{"address = \"::1\"", true},        {"address = ::1 ; all", true},
};

START_TEST(quotes_and_comments_in_a_text_are_warned_of)
{
	char text[128];

	log_capture_begin();
	if (strncmp(strays[_i].line, "address", 7) == 0)
		snprintf(text, sizeof(text), "[server]\n%s\n[export a]\nfile = a\n",
			 strays[_i].line);
	else
		snprintf(text, sizeof(text), "[export a]\n%s\n%s", strays[_i].line,
			 strncmp(strays[_i].line, "file", 4) == 0 ? "" : "file = a\n");
	write_config(text);
	assert_configured("-c", config_path);
	forget(true);
	ck_assert_int_eq(log_capture_has(LOG_LEVEL_WARNING, "belong"), strays[_i].warns);
	if (strays[_i].warns)
		ck_assert(log_capture_has(LOG_LEVEL_WARNING, ".conf:2: "));
	log_capture_end();
}
END_TEST

/* ---- included directories */

static char include_dir[] = "check_command_line.d";

static void
write_included(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", include_dir, name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
}

static void
end_include(void)
{
	static const char *const names[] = {"10.conf", "9.conf",  "B.conf", "a.conf",
					    "c.conf~", ".d.conf", "e.cnf",  ".conf"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", include_dir, names[i]);
		unlink(path);
	}
	rmdir(include_dir);
}

static void
begin_include(void)
{
	/* A test that failed has left its files. */
	end_include();
	ck_assert_int_eq(mkdir(include_dir, 0700), 0);
	write_config("[server]\ninclude = check_command_line.d\ndepth = 7\n[export m]\nfile = m\n");
}

START_TEST(included_files_add_exports_in_the_order_of_their_names)
{
	static const char *const wanted[] = {"m", "ten", "ten too", "nine", "b", "a", "x"};

	write_included("a.conf", "[export a]\nfile = a\n");
	write_included("B.conf", "[export b]\nfile = b\ndepth = 3");
	write_included("9.conf", "# nothing else\n[export nine]\nfile = 9\n");
	write_included("10.conf", "[export ten]\nfile = 10\n[export ten too]\nfile = 11\n");
	write_included("c.conf~", "nonsense");
	write_included(".d.conf", "nonsense");
	write_included(".conf", "nonsense");
	write_included("e.cnf", "nonsense");
	assert_configured("-c", config_path, "--export", "x=x");
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		ck_assert_str_eq(nth_export(i)->name, wanted[i]);
	ck_assert_uint_eq(nth_export(3)->image.depth, 7);
	ck_assert_uint_eq(nth_export(4)->image.depth, 3);
	ck_assert_ptr_null(nth_export(6)->next);
	forget(true);
	/* Also without a file. */
	assert_configured("--include", include_dir);
	ck_assert_str_eq(nth_export(0)->name, "ten");
	forget(true);
}
END_TEST

static const struct {
	const char *text, *hint;
} bad_includes[] = {
	{"[server]\nthreads = 2\n", "d/a.conf:1: unknown section [server]; an included file has"},
	{"[export m]\nfile = x\n", "d/a.conf:1: there are two exports named \"m\""},
	{"file = x\n", "d/a.conf:1: a section must come first"},
	{"[export x]\n\nfile = x\ninclude = y\n", "d/a.conf:4: include belongs in the section"},
	{"[export x]\nfile = x\nallow = uid:y\n", "d/a.conf:3: export \"x\": allow: uid:y"},
	{"[export x]\n", "d/a.conf:1: the export \"x\" has no image"},
	{"[export x]\nfiel = x\n", "d/a.conf:2: unknown option fiel; did you mean file?"},
};

START_TEST(errors_in_included_files_name_the_file)
{
	write_included("a.conf", bad_includes[_i].text);
	assert_refused(bad_includes[_i].hint, "-c", config_path);
}
END_TEST

START_TEST(included_file_must_be_regular)
{
	/* Opened as a file, it would wait for a writer. */
	ck_assert_int_eq(mkfifo("check_command_line.d/a.conf", 0600), 0);
	assert_refused("d/a.conf: Not a regular file", "-c", config_path);
	end_include();
	begin_include();
	ck_assert_int_eq(mkdir("check_command_line.d/a.conf", 0700), 0);
	assert_refused("d/a.conf: Is a directory", "-c", config_path);
	ck_assert_int_eq(rmdir("check_command_line.d/a.conf"), 0);
}
END_TEST

START_TEST(included_directory_must_exist)
{
	assert_configured("-c", config_path);
	ck_assert_ptr_null(nth_export(0)->next);
	forget(true);
	end_include();
	assert_refused("include=check_command_line.d: No such file", "-c", config_path);
	begin_include();
}
END_TEST

START_TEST(file_that_is_no_text_is_refused)
{
	FILE *file = fopen(config_path, "w");

	fwrite("[server]\0", 1, 9, file);
	fclose(file);
	assert_refused("not a text file", "-c", config_path);
	unlink(config_path);
	ck_assert_int_eq(configure("-c", config_path, NULL), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, config_path));
	forget(false);
}
END_TEST

/* Larger than what is read at once, and without an end of the last line. */
START_TEST(long_file_is_read_to_its_end)
{
	FILE *file = fopen(config_path, "w");

	for (int i = 0; i < 3000; i++)
		fprintf(file, "[export e%d]\nfile = f%d.img\n", i, i);
	fputs("[server]\nthreads = 9", file);
	fclose(file);
	assert_configured("-c", config_path);
	ck_assert_str_eq(nth_export(2999)->file, "f2999.img");
	ck_assert_uint_eq(config.threads, 9);
	forget(true);
}
END_TEST

static void
remove_config(void)
{
	unlink(config_path);
}

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "command line"},
		{.test = one_image_is_the_export_without_a_name},
		{.test = options_may_stand_behind_the_image_and_be_short},
		{.test = exports_have_common_options_and_their_own},
		{.test = wrong_command_lines_are_explained},
		{.test = help_and_version_need_nothing_else},
		{.test = uri_names_the_first_address_and_export},
		{.test = launcher_adds_its_socket_and_its_log},
		{.name = "file", .end_once = remove_config},
		{.test = file_has_sections_comments_and_blanks},
		{.test = command_line_goes_before_the_server_section},
		{.test = rules_have_defaults_and_are_read_for_each_export},
		{.test = file_is_read_anew_each_time},
		{.test = errors_in_the_file_name_the_line,
		 .last = sizeof(bad_files) / sizeof(bad_files[0])},
		{.test = errors_of_the_command_line_name_no_line},
		{.test = quotes_and_comments_in_a_text_are_warned_of,
		 .last = sizeof(strays) / sizeof(strays[0])},
		{.test = file_that_is_no_text_is_refused},
		{.test = long_file_is_read_to_its_end},
		{.name = "include",
		 .begin = begin_include,
		 .end = end_include,
		 .end_once = remove_config},
		{.test = included_files_add_exports_in_the_order_of_their_names},
		{.test = errors_in_included_files_name_the_file,
		 .last = sizeof(bad_includes) / sizeof(bad_includes[0])},
		{.test = included_file_must_be_regular},
		{.test = included_directory_must_exist},
		{0},
	};

	return suite_run("command_line", cases);
}
