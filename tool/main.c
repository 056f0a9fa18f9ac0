/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop: image files and NBD exports as block devices, as losetup does it with the loop driver.
 */
#include "tool/verb.h"

#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
	{"attach", verb_attach, "make a block device of an image or an NBD export"},
	{"change", verb_change, "give a read-only device another image of the same size"},
	{"detach", verb_detach, "end a block device, when all was written"},
	{"list", verb_list, "list attached devices"},
	{"replace-server", verb_replace_server, "let a new server process take over, without an I/O error"},
	{"resize", verb_resize, "give a device the size that its image has now"},
	{"set", verb_set, "switch direct I/O on or off"},
	{"start", verb_start, "attach what /etc/nbdloop.tab has for a device"},
	{"status", verb_status, "show what a device does just now"},
	{"stop", verb_stop, "detach what start has attached"},
};

static void
to_stderr(enum log_level level, const char *text)
{
	/* As losetup: nothing is said when all is well. */
	if (level <= LOG_LEVEL_WARNING)
		fprintf(stderr, "nbdloop: %s%s\n", level == LOG_LEVEL_WARNING ? "warning: " : "", text);
}

static void
show_help(void)
{
	printf("Usage: nbdloop VERB [OPTION]... [ARGUMENT]...\n"
	       "Image files and NBD exports as block devices /dev/nbdN.\n\n");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		printf("    %-14s   %s\n", verbs[i].name, verbs[i].help);
	printf("\n    -h, --help       show this and end\n"
	       "    -V, --version    show the version and end\n"
	       "\nnbdloop VERB --help lists a verb's options.\n");
}

int
main(int argc, char **argv)
{
	log_set_sink(to_stderr);
	if (argc < 2) {
		log_error("what is to be done?  nbdloop --help lists the verbs");
		return EXIT_FAILURE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		show_help();
		return EXIT_SUCCESS;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("nbdloop %s\n", PACKAGE_VERSION);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	}
	log_error("there is no verb \"%s\"; nbdloop --help lists them", argv[1]);
	return EXIT_FAILURE;
}
