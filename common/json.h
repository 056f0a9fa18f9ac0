/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes JSON (RFC 8259) on one line.  Only what a status needs; there is no reader.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;  /* borrowed */
	bool comma; /* a comma is due before the next value */
};

void
json_init(struct json *json, FILE *out);

/* `key` is NULL inside an array and for the outermost value. */
void
json_object_begin(struct json *json, const char *key);
void
json_object_end(struct json *json);
void
json_array_begin(struct json *json, const char *key);
void
json_array_end(struct json *json);
/* NULL is written as null.  Bytes that are not UTF-8 (a path may hold any) become U+FFFD. */
void
json_string(struct json *json, const char *key, const char *value);
void
json_uint(struct json *json, const char *key, uint64_t value);
void
json_bool(struct json *json, const char *key, bool value);

#endif
