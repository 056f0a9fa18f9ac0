/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standard input, output and error: a program may be started without these descriptors.
 */
#ifndef COMMON_STANDARD_FDS_H
#define COMMON_STANDARD_FDS_H

#include <stdbool.h>

/*
 * Opens /dev/null for each standard descriptor that is closed. Must be the first call in main():
 * otherwise the next file that the program opens, perhaps an image, gets such a number, and
 * messages go into it. Ends the program if it fails, because that may then open no file.
 */
void
standard_fds_ensure(void);

/* Writes what was printed. Returns false if that fails; standard_output_end() reports why. */
bool
standard_output_flush(void);

/*
 * Closes standard output at the end of main(), whose status is `status`. Returns it; or, if not all
 * that was printed could be written, EXIT_FAILURE after an error.
 */
int
standard_output_end(int status);

#endif
