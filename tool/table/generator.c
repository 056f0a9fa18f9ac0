/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop-generator: systemd runs it at boot, and whenever it reloads its units, to learn about
 * the table; see systemd.generator(7).
 */
#include "tool/table/systemd_units.h"
#include "tool/table/table.h"

#include "common/log.h"
#include "common/standard_fds.h"

#include <stdio.h>
#include <stdlib.h>

static FILE *kernel_log;

/* When systemd runs this, there may be no journal yet: messages go to the kernel's log, with their
 * priority. */
static void
to_logs(enum log_level level, const char *text)
{
	if (level > LOG_LEVEL_WARNING)
		return;
	fprintf(stderr, "nbdloop-generator: %s\n", text);
	if (kernel_log)
		fprintf(kernel_log, "<%d>nbdloop-generator: %s\n", level == LOG_LEVEL_ERROR ? 3 : 4,
			text);
}

/* An invalid line doesn't prevent the others from being attached. */
static bool
generator_write(const struct table *table, const char *directory)
{
	bool all = table_log_errors(table);

	for (guint i = 0; i < table->entries->len; i++) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i);
		g_autoptr(GError) error = NULL;

		if (systemd_units_write(entry, directory, &error))
			continue;
		log_error("%s:%u: %s", entry->file, entry->line, error->message);
		all = false;
	}
	return all;
}

int
main(int argc, char **argv)
{
	struct table TABLE_CLEANUP table = {.entries = NULL};
	g_autofree char *path = table_path();
	bool all;

	standard_fds_ensure();
	if (argc != 2 && argc != 4) {
		fprintf(stderr,
			"usage: nbdloop-generator DIRECTORY [EARLY-DIRECTORY LATE-DIRECTORY]\n"
			"systemd runs it; see nbdloop.tab(5).\n");
		return EXIT_FAILURE;
	}
	if (g_getenv("SYSTEMD_SCOPE")) {
		kernel_log = fopen("/dev/kmsg", "we");
		if (kernel_log)
			setvbuf(kernel_log, NULL, _IOLBF, 0);
	}
	log_set_sink(to_logs);
	table_read(&table, path);
	all = generator_write(&table, argv[1]);
	if (kernel_log)
		fclose(kernel_log);
	return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
