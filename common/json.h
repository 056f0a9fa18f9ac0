/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes JSON (RFC 8259) on one line: only the parts that a status needs. It reads no JSON. The
 * names are not those of jansson, with which the command nbdloop reads JSON.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;  /* the caller's */
	bool comma; /* the next value needs a comma before it */
};

void
json_init(struct json *json, FILE *out);

/* Begins an object or array. Here and below, `key` is NULL inside an array and for the outermost
 * value. */
void
json_object_begin(struct json *json, const char *key);
void
json_object_end(struct json *json);
void
json_array_begin(struct json *json, const char *key);
void
json_array_end(struct json *json);
/* Writes a string, or null for NULL. Bytes that are not UTF-8, which a path may contain, become
 * U+FFFD. */
void
json_put_string(struct json *json, const char *key, const char *value);
void
json_put_uint(struct json *json, const char *key, uint64_t value);
void
json_put_bool(struct json *json, const char *key, bool value);
/* Writes values into an array, which another struct json has written outside of one. NULL or "":
 * none. */
void
json_put_values(struct json *json, const char *values);

/* Closes a stream of open_memstream(). Returns whether it holds all that was written; otherwise
 * sets *text to NULL. */
bool
json_text_close(FILE *out, char **text, size_t *size);

#endif
