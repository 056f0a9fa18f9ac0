/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the option rows of the plugin as POD, for the manual.  Used by the build only.
 */
#include "common/option.h"
#include "engine/config.h"
#include "plugins/loop/config.h"

#include <stdio.h>
#include <stdlib.h>

int
main(void)
{
	options_print_pod(stdout, loop_option_rows);
	options_print_pod(stdout, image_option_rows);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("print-options");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
