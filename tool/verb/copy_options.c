/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/copy_options.h"

#include <unistd.h>

void
copy_verb_progress(const struct copy_verb_options *options, struct progress *progress)
{
	*progress = (struct progress){.form = PROGRESS_NONE, .out = stderr};
	if (options->json) {
		progress->form = PROGRESS_JSON;
		progress->out = stdout;
	} else if (isatty(STDERR_FILENO)) {
		progress->form = PROGRESS_BAR;
	}
}
