/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An error as a sentence for the user, beside the errno value that the program goes on with.
 */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

/* Sets *error to the sentence, which the caller frees, or to NULL if there is no memory for it.
 * Returns `r`, so that a function can end with it: return error_set(error, -EINVAL, "...", ...). */
int
error_set(char **error, int r, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What error_set() adds from now on to a sentence that ends with the reason of -EACCES, because
 * more than a file's mode may forbid it; NULL: nothing, as at the start. It stays the caller's. */
void
error_explain_denials(const char *addition);

#endif
