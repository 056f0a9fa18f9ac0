/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop: image files and NBD exports as block devices, as losetup does it with the loop driver.
 */
#include "tool/guard/guard_files.h"
#include "tool/system_file.h"
#include "tool/verb/verb.h"

#include "common/log.h"
#include "common/near_word.h"
#include "common/standard_fds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
nbdloop_log(enum log_level level, const char *text)
{
	/* As losetup, nbdloop prints nothing when all is well. */
	if (level <= LOG_LEVEL_WARNING)
		fprintf(stderr, "nbdloop: %s%s\n", level == LOG_LEVEL_WARNING ? "warning: " : "",
			text);
}

static void
nbdloop_show_help(void)
{
	printf("Usage: nbdloop [VERB [OPTION]... [ARGUMENT]...]\n"
	       "Attaches image files and NBD exports as block devices /dev/nbdN.  Without a verb, lists them.\n\n");
	for (const struct verb *const *verb = verbs; *verb; verb++)
		printf("    %-14s   %s\n", (*verb)->name, (*verb)->help);
	printf("\n    -h, --help       show this help and exit\n"
	       "    -V, --version    show the version and exit\n"
	       "\nnbdloop VERB --help lists the options of a verb.\n");
}

/* The verb that does what an option of losetup does, or NULL. */
static const char *
meant_by_option(const char *word)
{
	static const struct {
		const char *letter, *name, *meant;
	} all[] = {
		{"-a", "--all", "list"},
		{"-l", "--list", "list"},
		{"-J", "--json", "list --json"},
		{"-O", "--output", "list --output=COLUMNS"},
		{"-j", "--associated", "list --associated=IMAGE"},
		{"-f", "--find", "attach IMAGE"},
		{"-P", "--partscan", "attach --partscan IMAGE"},
		{"-L", "--nooverlap", "attach --nooverlap IMAGE"},
		{"-r", "--read-only", "attach --read-only IMAGE"},
		{"-o", "--offset", "attach --offset=SIZE IMAGE"},
		{"-b", "--sector-size", "attach --sector-size=SIZE IMAGE"},
		{NULL, "--sizelimit", "attach --sizelimit=SIZE IMAGE"},
		{NULL, "--show", "attach --show IMAGE"},
		{NULL, "--direct-io",
		 "attach --direct-io IMAGE, or nbdloop set --direct-io DEVICE"},
		{"-c", "--set-capacity", "resize DEVICE"},
		{"-d", "--detach", "detach DEVICE"},
		{"-D", "--detach-all", "detach --all"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t length = strcspn(word, "=");

		if ((all[i].letter && strcmp(word, all[i].letter) == 0) ||
		    (length == strlen(all[i].name) && strncmp(word, all[i].name, length) == 0))
			return all[i].meant;
	}
	return NULL;
}

static void
refuse_verb(const char *word)
{
	const char *meant = word[0] == '-' ? meant_by_option(word) : NULL;
	struct near_word near = {.word = word};
	char hint[NEAR_WORD_HINT];

	for (const struct verb *const *verb = verbs; *verb; verb++)
		near_word_offer(&near, (*verb)->name);
	if (meant)
		log_error("%s comes after a verb: nbdloop %s; nbdloop --help lists the verbs", word,
			  meant);
	else if (strncmp(word, "/dev/nbd", strlen("/dev/nbd")) == 0)
		log_error(
			"a verb is missing before %s: nbdloop list %s shows what it is; nbdloop --help lists the verbs",
			word, word);
	else if (access(word, F_OK) == 0)
		log_error(
			"a verb is missing before %s: nbdloop attach %s makes a device of it; nbdloop --help lists the verbs",
			word, word);
	else
		log_error("there is no verb \"%s\"%s; nbdloop --help lists them", word,
			  near_word_hint(&near, hint));
}

static int
nbdloop_run(int argc, char **argv)
{
	g_autofree char *directory = system_file_path(GUARD_DIRECTORY);
	const struct verb *verb;
	int status;

	/* As losetup. */
	if (argc < 2)
		return verb_run(&verb_list, 1, argv);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		nbdloop_show_help();
		return EXIT_SUCCESS;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("nbdloop %s\n", PACKAGE_VERSION);
		return EXIT_SUCCESS;
	}
	verb = verb_find(argv[1]);
	if (!verb) {
		refuse_verb(argv[1]);
		return VERB_USAGE;
	}
	status = verb_run(verb, argc - 1, argv + 1);
	if (geteuid() == 0)
		guard_files_clean(directory);
	return status;
}

int
main(int argc, char **argv)
{
	standard_fds_ensure();
	log_set_sink(nbdloop_log);
	return standard_output_end(nbdloop_run(argc, argv));
}
