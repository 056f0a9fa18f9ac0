/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes JSON on one line.
 */
#include "common/json.h"

#include "common/utf8.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

void
json_init(struct json *json, FILE *out)
{
	json->out = out;
	json->comma = false;
}

static void
text_write_ascii(FILE *out, unsigned char byte)
{
	switch (byte) {
	case '"':
	case '\\': fprintf(out, "\\%c", byte); break;
	case '\n': fputs("\\n", out); break;
	case '\t': fputs("\\t", out); break;
	case '\r': fputs("\\r", out); break;
	default:
		if (byte < ' ' || byte == 0x7f)
			fprintf(out, "\\u%04x", byte);
		else
			fputc(byte, out);
	}
}

static void
text_write(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	fputc('"', out);
	while (*at) {
		size_t length = utf8_length(at);

		if (length == 1)
			text_write_ascii(out, *at);
		else if (length > 1)
			fwrite(at, 1, length, out);
		else
			fputs(UTF8_REPLACEMENT, out);
		at += length ? length : 1;
	}
	fputc('"', out);
}

/* Writes the text before a value: a comma after the previous value, and the key. */
static void
value_begin(struct json *json, const char *key)
{
	if (json->comma)
		fputc(',', json->out);
	if (key) {
		text_write(json->out, key);
		fputc(':', json->out);
	}
	json->comma = true;
}

void
json_object_begin(struct json *json, const char *key)
{
	value_begin(json, key);
	fputc('{', json->out);
	json->comma = false;
}

void
json_object_end(struct json *json)
{
	fputc('}', json->out);
	json->comma = true;
}

void
json_array_begin(struct json *json, const char *key)
{
	value_begin(json, key);
	fputc('[', json->out);
	json->comma = false;
}

void
json_array_end(struct json *json)
{
	fputc(']', json->out);
	json->comma = true;
}

void
json_put_string(struct json *json, const char *key, const char *value)
{
	value_begin(json, key);
	if (value)
		text_write(json->out, value);
	else
		fputs("null", json->out);
}

void
json_put_uint(struct json *json, const char *key, uint64_t value)
{
	value_begin(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void
json_put_bool(struct json *json, const char *key, bool value)
{
	value_begin(json, key);
	fputs(value ? "true" : "false", json->out);
}

void
json_put_values(struct json *json, const char *values)
{
	if (!values || !*values)
		return;
	value_begin(json, NULL);
	fputs(values, json->out);
}

bool
json_text_close(FILE *out, char **text, size_t *size)
{
	/* Without memory, glibc's stream has no error, not even at its end, but it refuses one more
	 * byte. */
	const bool complete = fputc('\0', out) != EOF && !ferror(out);

	if (fclose(out) == 0 && complete && *text) {
		--*size;
		return true;
	}
	free(*text);
	*text = NULL;
	return false;
}
