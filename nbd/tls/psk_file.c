/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/psk_file.h"

#include "common/error.h"
#include "common/secret_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What some editors put at the beginning of a file (UTF-8). */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* Shortest key, in bytes: 128 bits, since a shorter one can be tried out. */
#define KEY_MIN 16

static int
psk_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 0, or what is wrong with the key. */
static const char *
parse_key(struct psk_user *user, const char *hex, size_t length)
{
	if (length % 2 != 0)
		return "the key has an odd number of hexadecimal digits";
	if (length / 2 < KEY_MIN)
		return "the key is shorter than 16 bytes (32 hexadecimal digits)";
	if (length / 2 > TLS_KEY_MAX)
		return "the key is longer than 64 bytes (128 hexadecimal digits)";
	for (size_t i = 0; i < length; i += 2) {
		int high = psk_digit(hex[i]), low = psk_digit(hex[i + 1]);

		if (high < 0 || low < 0)
			return "the key is not hexadecimal";
		user->key[i / 2] = (uint8_t)(high << 4 | low);
	}
	user->key_length = (uint8_t)(length / 2);
	return NULL;
}

/* 0, or what is wrong with the line. The caller's message must not hold the line, which may be a
 * key. */
static const char *
psk_parse_line(struct psk_user *user, const char *line, size_t length)
{
	const char *colon = memchr(line, ':', length);
	size_t name = colon ? (size_t)(colon - line) : 0;

	if (!colon)
		return "the line is not USER:HEXKEY";
	if (name == 0)
		return "the name of the user is missing";
	if (name > TLS_USER_MAX)
		return "the name of the user is longer than 128 bytes";
	for (size_t i = 0; i < name; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			return "the name of the user holds a control character";
	memcpy(user->name, line, name);
	return parse_key(user, colon + 1, length - name - 1);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Moves *line behind its first blanks. Returns its length without those at its end. */
static size_t
psk_trim(const char **line, const char *end)
{
	while (*line < end && is_blank(**line))
		(*line)++;
	while (end > *line && is_blank(end[-1]))
		end--;
	return (size_t)(end - *line);
}

/* How many of the bytes are hexadecimal digits. */
static size_t
count_digits(const char *text, size_t length)
{
	size_t count = 0;

	while (count < length && psk_digit(text[count]) >= 0)
		count++;
	return count;
}

/* Returns whether GnuTLS would read a line that begins with # as a user, whose name has hexadecimal
 * digits there. Here it could be a key that somebody has put out of use. */
static bool
is_hex_user(const char *line, size_t length)
{
	size_t name = count_digits(line + 1, length - 1);

	return name > 0 && name % 2 == 0 && name + 2 < length && line[1 + name] == ':' &&
	       count_digits(line + name + 2, length - name - 2) == length - name - 2;
}

/* 0, or what is wrong with the line, which adds a user unless it is empty or a comment. */
static const char *
psk_take_line(struct psk_file *file, const char *line, size_t length)
{
	struct psk_user *last;
	const char *wrong;

	if (length > 0 && line[0] == '#')
		return is_hex_user(line, length)
			       ? "is this a comment, or a user's name in hexadecimal digits?  Put a "
				 "blank after the # of a comment, or write the name itself"
			       : NULL;
	if (length == 0)
		return NULL;
	last = &file->users[file->count++];
	wrong = psk_parse_line(last, line, length);
	for (const struct psk_user *user = file->users; !wrong && user < last; user++)
		if (strcmp(user->name, last->name) == 0)
			wrong = "a line before has this user, too";
	return wrong;
}

static int
psk_parse(struct psk_file *file, const struct secret_file *text, const char *path, char **error)
{
	const char *at = text->bytes, *end = at + text->length;

	if (text->length > 0 && strncmp(at, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		at += strlen(BYTE_ORDER_MARK);
	for (unsigned int number = 1; at < end; number++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *next = newline ? newline + 1 : end;
		size_t length = psk_trim(&at, newline ? newline : end);
		const char *wrong = psk_take_line(file, at, length);

		if (wrong)
			return error_set(error, -EINVAL, "%s:%u: %s", path, number, wrong);
		at = next;
	}
	return file->count > 0 ? 0 : error_set(error, -EINVAL, "%s: no user is in this file", path);
}

int
psk_file_read(struct psk_file *file, const char *path, char **error)
{
	struct secret_file SECRET_FILE_CLEANUP text = {0};
	size_t lines = 1;
	int r = secret_file_read(&text, path, error);

	*file = (struct psk_file){0};
	if (r < 0)
		return r;
	for (size_t i = 0; i < text.length; i++)
		lines += text.bytes[i] == '\n';
	file->mode = text.mode;
	file->users = calloc(lines, sizeof(*file->users));
	if (!file->users)
		return -ENOMEM;
	r = psk_parse(file, &text, path, error);
	if (r < 0)
		psk_file_fini(file);
	return r;
}

void
psk_file_fini(struct psk_file *file)
{
	if (file->users)
		explicit_bzero(file->users, file->count * sizeof(*file->users));
	free(file->users);
	*file = (struct psk_file){0};
}

/* 0xff if a and b are equal, else 0; without a branch. */
static uint8_t
psk_equality_mask(const uint8_t a[TLS_USER_MAX + 1], const char b[TLS_USER_MAX + 1])
{
	unsigned int difference = 0;

	for (size_t i = 0; i < TLS_USER_MAX + 1; i++)
		difference |= a[i] ^ (uint8_t)b[i];
	return (uint8_t)((difference - 1) >> 8);
}

bool
psk_file_find(const struct psk_file *file, const uint8_t *name, size_t length,
	      uint8_t key[TLS_KEY_MAX], size_t *key_length)
{
	uint8_t padded[TLS_USER_MAX + 1] = {0};
	uint8_t found = 0, length_found = 0;

	memset(key, 0, TLS_KEY_MAX);
	*key_length = 0;
	/* A user's name has no NUL, so padding makes no two names equal. */
	if (length == 0 || length > TLS_USER_MAX || memchr(name, '\0', length))
		return false;
	memcpy(padded, name, length);
	for (size_t i = 0; i < file->count; i++) {
		const struct psk_user *user = &file->users[i];
		uint8_t mask = psk_equality_mask(padded, user->name);

		for (size_t j = 0; j < TLS_KEY_MAX; j++)
			key[j] |= user->key[j] & mask;
		length_found |= user->key_length & mask;
		found |= mask;
	}
	*key_length = length_found;
	return found;
}
