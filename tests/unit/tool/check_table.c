/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table /etc/nbdloop.tab, and systemd's units for it.
 */
#include "tool/table/table.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include "tool/failure.h"
#include "tool/system_file.h"
#include "tool/table/systemd_units.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct table table;
static char *path, *units;

static void
begin(void)
{
	path = table_path();
	units = system_file_path("/units");
	ck_assert_int_eq(g_mkdir_with_parents(units, 0700), 0);
}

static void
end(void)
{
	table_fini(&table);
	g_free(path);
	g_free(units);
}

static const struct table_entry *
entry(guint i)
{
	ck_assert_uint_lt(i, table.entries->len);
	return g_ptr_array_index(table.entries, i);
}

static void
read_lines(const char *lines)
{
	table_fini(&table);
	tree_write("etc/nbdloop.tab", lines);
	table_read(&table, path);
}

static void
assert_good(const char *lines, guint count)
{
	read_lines(lines);
	ck_assert_msg(table.errors->len == 0, "%s",
		      table.errors->len ? (char *)table.errors->pdata[0] : "");
	ck_assert_uint_eq(table.entries->len, count);
}

/* The only error names the file and that line, and contains these words. */
static void
assert_refused(const char *lines, unsigned int line, const char *words)
{
	g_autofree char *place = g_strdup_printf("%s:%u: ", path, line);
	const char *error;

	read_lines(lines);
	ck_assert_msg(table.errors->len == 1, "%u errors of: %s", table.errors->len, lines);
	error = table.errors->pdata[0];
	ck_assert_msg(g_str_has_prefix(error, place), "%s", error);
	ck_assert_msg(strstr(error, words), "%s", error);
}

START_TEST(line_has_device_image_and_options)
{
	assert_good("nbd0 /srv/disk.img offset=1M,read-only,direct-io,connections=4\n", 1);
	ck_assert_str_eq(entry(0)->device, "nbd0");
	ck_assert_str_eq(entry(0)->image, "/srv/disk.img");
	ck_assert_uint_eq(entry(0)->options.offset, 1 << 20);
	ck_assert_uint_eq(entry(0)->options.read_only, 1);
	ck_assert_uint_eq(entry(0)->options.connections, 4);
	ck_assert_uint_eq(entry(0)->options.direct_io, 1); /* "on" */
	ck_assert_uint_eq(entry(0)->options.partscan, 0);
	ck_assert(entry(0)->at_boot);
	ck_assert_str_eq(entry(0)->file, path);
	ck_assert_uint_eq(entry(0)->line, 1);
}
END_TEST

START_TEST(what_is_not_said_is_as_on_the_command_line)
{
	struct attach_options defaults;

	ck_assert_int_eq(options_init(attach_option_rows, &defaults), 0);
	assert_good("/dev/nbd12 nbd://server.example/disk", 1);
	ck_assert_str_eq(entry(0)->device, "nbd12");
	ck_assert_str_eq(entry(0)->image, "nbd://server.example/disk");
	for (const struct option_row *row = attach_option_rows; row->name; row++) {
		char *wanted = option_value_text(row, &defaults),
		     *seen = option_value_text(row, &entry(0)->options);

		ck_assert_str_eq(seen, wanted);
		free(wanted);
		free(seen);
	}
	options_free(attach_option_rows, &defaults);
}
END_TEST

START_TEST(blanks_comments_and_empty_lines_do_not_matter)
{
	assert_good(
		"# a comment\n\n \t \n\tnbd1   /a\t\tread-only   # why\r\n#nbd2 /b\nnbd3 /c# # no options\n",
		2);
	ck_assert_str_eq(entry(0)->device, "nbd1");
	ck_assert_uint_eq(entry(0)->options.read_only, 1);
	ck_assert_uint_eq(entry(0)->line, 4);
	ck_assert_str_eq(entry(1)->image, "/c#");
	ck_assert_uint_eq(entry(1)->line, 6);
}
END_TEST

START_TEST(names_have_blanks_as_in_fstab)
{
	assert_good("nbd0 /srv/my\\040disk\\134\\011\\303\\244.img", 1);
	ck_assert_str_eq(entry(0)->image, "/srv/my disk\\\tä.img");
	assert_refused("nbd0 /srv/my\\ disk.img", 1, "\\040 is a space");
	assert_refused("nbd0 /srv/a\\08", 1, "three octal digits");
	assert_refused("nbd0 /srv/a\\0", 1, "three octal digits");
	assert_refused("nbd0 /srv/a\\000b", 1, "three octal digits");
	assert_refused("nbd0 /srv/a\\777b", 1, "three octal digits");
}
END_TEST

/* As on the command line; blanks are written as everywhere in the table. */
START_TEST(limit_has_parts_with_commas_between_them)
{
	assert_good("nbd0 /a iops-limit=read:1000,write:500,burst:7,read-only\n"
		    "nbd1 /b bandwidth-limit=100M\\040burst:1G,iops-limit=50,burst:60,noauto\n",
		    2);
	ck_assert_str_eq(entry(0)->options.iops_limit, "read:1000,write:500,burst:7");
	ck_assert_uint_eq(entry(0)->options.read_only, 1);
	ck_assert_str_eq(entry(1)->options.bandwidth_limit, "100M burst:1G");
	ck_assert_str_eq(entry(1)->options.iops_limit, "50,burst:60");
	ck_assert(!entry(1)->at_boot);
	assert_refused("nbd0 /a burst:5", 1, "there is no option \"burst:5\"");
	assert_refused("nbd0 /a offset=1M,burst:5", 1, "offset=1M,burst:5");
	assert_refused("nbd0 /a iops-limit=5,burst:6,iops-limit=7", 1, "iops-limit is given twice");
}
END_TEST

START_TEST(wrong_limit_is_refused)
{
	assert_refused("nbd0 /a iops-limit=10k", 1, "iops-limit=10k: must be operations");
	assert_refused("nbd0 /a bandwidth-limit=read:5M,burst", 1, "there is no option \"burst\"");
	assert_refused("nbd0 /a bandwidth-limit=100", 1, "bandwidth-limit=100: must be bytes");
}
END_TEST

START_TEST(noauto_is_not_attached_at_boot)
{
	assert_good("nbd0 /a noauto\nnbd1 /b read-only,noauto\n", 2);
	ck_assert(!entry(0)->at_boot && !entry(1)->at_boot);
	ck_assert_uint_eq(entry(1)->options.read_only, 1);
}
END_TEST

START_TEST(malformed_line_is_named_and_the_others_count)
{
	assert_refused("nbd0 /a\nnbd1\nnbd2 /c\n", 2,
		       "a line has a device, an image or NBD URI, and options");
	ck_assert_uint_eq(table.entries->len, 2);
	ck_assert_ptr_nonnull(table_find(&table, "nbd2"));
	ck_assert_ptr_null(table_find(&table, "nbd1"));
	assert_refused("\nnbd0 /my disk.img read-only\n", 2,
		       "\"read-only\" is one word too many; a space in a name is written \\040");
	assert_refused("loop0 /a", 1, "loop0 is no device of the nbd driver");
	assert_refused("nbd0p1 /a", 1, "not a partition");
	assert_refused("nbd0 disk.img", 1, "disk.img is neither an absolute path nor an NBD URI");
	assert_refused("nbd0 ftp://host/x", 1, "ftp://host/x is neither");
}
END_TEST

START_TEST(image_elsewhere_has_whole_paths)
{
	assert_good("nbd0 rbd:p/i ceph-conf=/c,ceph-user=vm,ceph-keyring=/k\n", 1);
	ck_assert_str_eq(entry(0)->image, "rbd:p/i");
	ck_assert_str_eq(entry(0)->options.ceph_user, "vm");
	assert_good("nbd0 https://h/i read-only,base-ca=/c,base-timeout=5\n", 1);
	assert_refused("nbd0 https://h/i base-ca=c", 1, "base-ca=c must be an absolute path");
	assert_refused("nbd0 rbd:p/i ceph-conf=c", 1, "ceph-conf=c must be an absolute path");
	assert_refused("nbd0 rbd:p/i ceph-keyring=k", 1, "ceph-keyring=k must be an absolute path");
	assert_refused("nbd0 rbd:p/i swap", 1, "--swap is not possible with rbd:p/i");
}
END_TEST

START_TEST(wrong_option_is_named)
{
	assert_refused("nbd0 /a ro", 1, "there is no option \"ro\"");
	assert_refused("nbd0 /a --read-only", 1, "there is no option \"--read-only\"");
	assert_refused("nbd0 /a offset", 1, "offset needs a value: offset=SIZE");
	assert_refused("nbd0 /a offset=x", 1, "offset=x: must be a size in bytes");
	assert_refused("nbd0 /a sector-size=700", 1,
		       "sector-size=700: must be one of 512, 1024, 2048, 4096");
	assert_refused("nbd0 /a read-only,,noauto", 1, "an option is missing");
	assert_refused("nbd0 /a =1", 1, "an option is missing");
	assert_refused("nbd0 /a noauto=yes", 1, "there is no option \"noauto\"");
	assert_refused("nbd0 /a offset=1M,timeout=1,offset=2M", 1,
		       "the option offset is given twice");
	assert_refused("nbd0 /a show", 1, "show is for the command line");
	assert_refused("nbd0 /a find", 1, "find is for the command line");
	assert_refused("nbd0 nbd://host offset=1M", 1, "offset is for images");
}
END_TEST

START_TEST(device_stands_there_once)
{
	g_autofree char *first = g_strdup_printf("/dev/nbd1 already has a line: %s:1", path);

	assert_refused("nbd1 /a\nnbd2 /b\n/dev/nbd1 /c\n", 3, first);
	ck_assert_str_eq(table_find(&table, "nbd1")->image, "/a");
}
END_TEST

START_TEST(drop_in_files_come_after_by_name)
{
	tree_write("etc/nbdloop.tab.d/20.conf", "nbd3 /c\nnbd1 /a\n");
	tree_write("etc/nbdloop.tab.d/10.conf", "nbd2 /b\n");
	tree_write("etc/nbdloop.tab.d/10.conf~", "nbd4 /d\n");
	tree_write("etc/nbdloop.tab.d/.10.conf", "nbd4 /d\n");
	read_lines("nbd1 /a\n");
	ck_assert_uint_eq(table.entries->len, 3);
	ck_assert_str_eq(entry(0)->device, "nbd1");
	ck_assert_str_eq(entry(1)->device, "nbd2");
	ck_assert_str_eq(entry(2)->device, "nbd3");
	ck_assert(g_str_has_suffix(entry(2)->file, "/etc/nbdloop.tab.d/20.conf"));
	ck_assert_uint_eq(table.errors->len, 1);
	ck_assert_msg(strstr(table.errors->pdata[0], "/20.conf:2: /dev/nbd1 already has a line: "),
		      "%s", (char *)table.errors->pdata[0]);
}
END_TEST

START_TEST(no_table_has_no_lines_and_no_errors)
{
	table_read(&table, path);
	ck_assert_uint_eq(table.entries->len, 0);
	ck_assert_uint_eq(table.errors->len, 0);
}
END_TEST

START_TEST(file_that_cannot_be_read_is_named)
{
	tree_write("etc/nbdloop.tab/not-a-file", "");
	table_read(&table, path);
	ck_assert_uint_eq(table.errors->len, 1);
	ck_assert_msg(strstr(table.errors->pdata[0], path), "%s", (char *)table.errors->pdata[0]);
}
END_TEST

/* ---- for systemd */

static void
assert_escaped(const char *text, const char *wanted)
{
	g_autofree char *name = systemd_units_escape_path(text);

	ck_assert_str_eq(name, wanted);
}

/* As `systemd-escape --path' prints them. */
START_TEST(unit_names_are_those_of_systemd)
{
	assert_escaped("/dev/nbd0", "dev-nbd0");
	assert_escaped("/dev/vg-a/lv_1", "dev-vg\\x2da-lv_1");
	assert_escaped("/dev//disk/by-label/my disk/", "dev-disk-by\\x2dlabel-my\\x20disk");
	assert_escaped("/.hidden/a.b", "\\x2ehidden-a.b");
	assert_escaped("/ä", "\\xc3\\xa4");
	assert_escaped("/", "-");
}
END_TEST

/* A file below the directory of units, or the target of a link there. */
static char *
unit_text(const char *name)
{
	g_autofree char *place = g_build_filename(units, name, NULL);
	char *text = g_file_read_link(place, NULL);

	if (!text)
		g_file_get_contents(place, &text, NULL, NULL);
	return text;
}

static void
assert_unit(const char *name, const char *words)
{
	g_autofree char *text = unit_text(name);

	ck_assert_msg(text, "there is no %s", name);
	ck_assert_msg(strstr(text, words), "%s: %s", name, text);
}

static void
write_units(void)
{
	for (guint i = 0; i < table.entries->len; i++) {
		g_autoptr(GError) error = NULL;

		ck_assert_msg(systemd_units_write(entry(i), units, &error), "%s",
			      error ? error->message : "no error either");
	}
}

#define DROP_IN(device_) "nbdloop@" device_ ".service.d/50-nbdloop.tab.conf"

START_TEST(unit_comes_after_what_the_image_needs)
{
	g_autofree char *local = NULL;

	assert_good(
		"nbd0 /srv/100%\\040disk.img\nnbd1 /dev/vg/lv\nnbd2 nbd://host/x\nnbd3 nbd+unix:///?socket=/run/s\n"
		"nbd4 /srv/\"a\".img\nnbd5 /dev/shm/disk.img\n",
		6);
	write_units();
	assert_unit(DROP_IN("nbd0"), "\n[Unit]\n");
	assert_unit(DROP_IN("nbd0"), "\nRequiresMountsFor=\"/srv/100%% disk.img\"\n");
	assert_unit(DROP_IN("nbd0"), "/etc/nbdloop.tab:1\n");
	assert_unit(
		DROP_IN("nbd1"),
		"\nBindsTo=dev-vg-lv.device\nAfter=dev-vg-lv.device blockdev@dev-vg-lv.target\n");
	assert_unit(DROP_IN("nbd2"),
		    "\nWants=network-online.target\nAfter=network-online.target\n");
	assert_unit(DROP_IN("nbd4"), "\nRequiresMountsFor='/srv/\"a\".img'\n");
	assert_unit(DROP_IN("nbd5"), "\nRequiresMountsFor=\"/dev/shm/disk.img\"\n");
	local = unit_text(DROP_IN("nbd3"));
	ck_assert_ptr_nonnull(local);
	ck_assert_ptr_null(strstr(local, "network"));
}
END_TEST

START_TEST(unit_is_wanted_at_boot_and_by_its_device)
{
	g_autofree char *absent = NULL;

	assert_good("nbd0 /a\nnbd1 nbd://host\nnbd2 /b noauto\n", 3);
	write_units();
	assert_unit("local-fs.target.wants/nbdloop@nbd0.service", "/nbdloop@.service");
	assert_unit("remote-fs.target.wants/nbdloop@nbd1.service", "/nbdloop@.service");
	for (int i = 0; i < 3; i++) {
		g_autofree char *name =
			g_strdup_printf("dev-nbd%d.device.requires/nbdloop@nbd%d.service", i, i);

		assert_unit(name, "/nbdloop@.service");
	}
	absent = unit_text("local-fs.target.wants/nbdloop@nbd2.service");
	ck_assert_ptr_null(absent);
}
END_TEST

START_TEST(image_that_no_unit_can_name_is_an_error)
{
	static const struct {
		const char *line, *printed;
	} all[] = {
		{"nbd0 /srv/a\\134b\n", "/srv/a\\b"},        {"nbd0 /srv/../a\n", "/srv/../a"},
		{"nbd0 /srv/\\033[2Ja\n", "/srv/\\033[2Ja"}, {"nbd0 /srv/\\377\n", "/srv/\\377"},
		{"nbd0 /srv/a/..\n", "/srv/a/.."},
	};

	for (guint i = 0; i < G_N_ELEMENTS(all); i++) {
		g_autofree char *said =
			g_strconcat(all[i].printed, " can't be written in a unit of systemd", NULL);
		g_autoptr(GError) error = NULL;

		assert_good(all[i].line, 1);
		ck_assert_msg(!systemd_units_write(entry(0), units, &error), "%s", all[i].line);
		ck_assert_msg(strstr(error->message, said), "%s", error->message);
	}
	assert_good("nbd0 /srv/..a\303\244\n", 1);
	write_units();
}
END_TEST

START_TEST(nul_in_one_line_leaves_the_others)
{
	static const char lines[] = "\xEF\xBB\xBFnbd0 /srv/a\nnbd1 /srv/\0b\nnbd2 /srv/c\n";

	read_lines(""); /* makes the file */
	ck_assert(g_file_set_contents(path, lines, sizeof(lines) - 1, NULL));
	table_read(&table, path);
	ck_assert_uint_eq(table.entries->len, 2);
	ck_assert_uint_eq(table.errors->len, 1);
	ck_assert_str_eq(entry(1)->device, "nbd2");
	ck_assert_msg(g_str_has_suffix(table.errors->pdata[0], ":2: a line has no NUL byte"), "%s",
		      (char *)table.errors->pdata[0]);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "lines",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = tree_begin},
		{.begin = begin, .end = end},
		{.test = line_has_device_image_and_options},
		{.test = what_is_not_said_is_as_on_the_command_line},
		{.test = blanks_comments_and_empty_lines_do_not_matter},
		{.test = names_have_blanks_as_in_fstab},
		{.test = limit_has_parts_with_commas_between_them},
		{.test = wrong_limit_is_refused},
		{.test = noauto_is_not_attached_at_boot},
		{.test = image_elsewhere_has_whole_paths},
		{.test = malformed_line_is_named_and_the_others_count},
		{.test = wrong_option_is_named},
		{.test = device_stands_there_once},
		{.test = drop_in_files_come_after_by_name},
		{.test = no_table_has_no_lines_and_no_errors},
		{.test = file_that_cannot_be_read_is_named},
		{.test = nul_in_one_line_leaves_the_others},
		{.name = "systemd",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = tree_begin},
		{.begin = begin, .end = end},
		{.test = unit_names_are_those_of_systemd},
		{.test = unit_comes_after_what_the_image_needs},
		{.test = unit_is_wanted_at_boot_and_by_its_device},
		{.test = image_that_no_unit_can_name_is_an_error},
		{0},
	};

	return suite_run("table", cases);
}
