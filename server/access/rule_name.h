/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names in rules: bytes that separate rules, or that would spoil a line of the log, are written as
 * %XX.
 */
#ifndef SERVER_ACCESS_RULE_NAME_H
#define SERVER_ACCESS_RULE_NAME_H

/* Returns "KIND:NAME" as a rule would be written; the caller frees it. NULL: out of memory. */
char *
rule_name_encode(const char *kind, const char *name);

/* Decodes the name in its place. Returns 0, or -EINVAL: a % without two hexadecimal digits, or %00.
 */
int
rule_name_decode(char *name);

#endif
