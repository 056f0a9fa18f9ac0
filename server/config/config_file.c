/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/config_file.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define EXPORT "export"
#define BLANKS " \t\r"

/* ---- reading */

/* Removes blanks from both ends. */
static char *
config_trim(char *text)
{
	size_t length;

	text += strspn(text, BLANKS);
	length = strlen(text);
	while (length > 0 && strchr(BLANKS, text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

static int
config_take_line(struct config_file *file, char *text, unsigned int number, char **error)
{
	struct config_line *line = &file->lines[file->count];
	char *equals;

	text = config_trim(text);
	if (text[0] == '\0' || text[0] == '#' || text[0] == ';')
		return 0;
	*line = (struct config_line){.number = number};
	if (text[0] == '[') {
		size_t length = strlen(text);

		if (text[length - 1] != ']')
			return error_set(error, -EINVAL,
					 "%s:%u: a section is [server] or [export NAME]",
					 file->path, line->number);
		text[length - 1] = '\0';
		line->name = config_trim(text + 1);
		file->count++;
		return 0;
	}
	equals = strchr(text, '=');
	if (!equals)
		return error_set(
			error, -EINVAL,
			"%s:%u: \"%s\" is neither a section, nor OPTION = VALUE, nor a comment (#)",
			file->path, line->number, text);
	*equals = '\0';
	line->name = config_trim(text);
	line->value = config_trim(equals + 1);
	file->count++;
	return 0;
}

static int
config_read_text(const char *path, char **text, size_t *length)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);
	char *CLEANUP_FREE buffer = NULL;
	size_t used = 0, size = 4096;
	ssize_t n;

	if (fd < 0)
		return -errno;
	do {
		char *larger = realloc(buffer, size *= 2);

		if (!larger)
			return -ENOMEM;
		buffer = larger;
		while ((n = read(fd, buffer + used, size - 1 - used)) > 0)
			used += (size_t)n;
		if (n < 0)
			return -errno;
	} while (used == size - 1);
	buffer[used] = '\0';
	*text = steal_pointer(&buffer);
	*length = used;
	return 0;
}

int
config_file_read(struct config_file *file, const char *path, char **error)
{
	unsigned int number = 0;
	size_t lines = 1;
	char *rest;
	int r;

	*file = (struct config_file){.path = path};
	r = config_read_text(path, &file->text, &file->size);
	if (r < 0) {
		return error_set(error, r, "configuration file %s: %s", path, strerror(-r));
	}
	if (strlen(file->text) < file->size) {
		return error_set(error, -EINVAL, "configuration file %s: not a text file", path);
	}
	for (const char *c = file->text; *c; c++)
		lines += *c == '\n';
	file->lines = calloc(lines, sizeof(*file->lines));
	if (!file->lines)
		return -ENOMEM;
	/* A byte order mark, as some editors write it. */
	rest = file->text + (strncmp(file->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0);
	while (r == 0 && rest) {
		char *text = strsep(&rest, "\n");

		r = config_take_line(file, text, ++number, error);
	}
	if (r == 0 && file->count > 0 && file->lines[0].value)
		r = error_set(error, -EINVAL,
			      "%s:%u: a section must come first: [server] or [export NAME]", path,
			      file->lines[0].number);
	return r;
}

void
config_file_fini(struct config_file *file)
{
	free(file->lines);
	free(file->text);
	*file = (struct config_file){0};
}

/* ---- applying */

static bool
is_section(const struct config_line *line)
{
	return !line->value;
}

/* The name of the export in a section [export NAME]; NULL: this is another section. */
static const char *
export_of_section(const struct config_line *line)
{
	size_t length = strlen(EXPORT);
	const char *name = line->name + length;

	if (strncmp(line->name, EXPORT, length) != 0 || (*name && !strchr(BLANKS, *name)))
		return NULL;
	return name + strspn(name, BLANKS);
}

/* An option with one value must not be set twice: one of the values would be lost. */
static int
check_repeated(const struct config_file *file, const struct config_line *line,
	       const struct option_row *row, char **error)
{
	if (!row || row->type == OPTION_LIST)
		return 0;
	for (const struct config_line *other = line - 1; !is_section(other); other--) {
		if (strcmp(other->name, line->name) == 0)
			return error_set(error, -EINVAL, "%s:%u: %s is already set in line %u",
					 file->path, line->number, line->name, other->number);
	}
	return 0;
}

static int
config_explain_failure(const struct config_file *file, const struct config_line *line,
		       const struct export_config *export, int r, char **error)
{
	char *CLEANUP_FREE sentence = steal_pointer(error);
	struct near_word near = {.word = line->name};
	char hint[NEAR_WORD_HINT];

	if (r == -ENOENT && strcmp(line->name, "file") == 0)
		return error_set(error, -EINVAL, "%s:%u: file belongs in a section [export NAME]",
				 file->path, line->number);
	if (r == -ENOENT && config_find(line->name))
		return error_set(error, -EINVAL, "%s:%u: %s belongs in the section [server]",
				 file->path, line->number, line->name);
	if (r == -ENOENT) {
		options_offer_names(export ? export_option_rows() : export_default_rows(), &near);
		if (!export)
			options_offer_names(server_option_rows, &near);
		return error_set(error, -EINVAL,
				 "%s:%u: unknown option %s%s; nbdloopd.conf(5) lists the options",
				 file->path, line->number, line->name, near_word_hint(&near, hint));
	}
	if (sentence)
		return error_set(error, -EINVAL, "%s:%u: %s", file->path, line->number, sentence);
	return r;
}

static int
apply_line(const struct config_file *file, const struct config_line *line,
	   struct server_config *config, struct export_config *export, char **error)
{
	int r = check_repeated(file, line,
			       export ? option_find(export_option_rows(), line->name)
				      : config_find(line->name),
			       error);

	if (r < 0)
		return r;
	r = export ? option_set(export_option_rows(), export, line->name, line->value, error)
		   : config_set(config, line->name, line->value, error);
	return r < 0 ? config_explain_failure(file, line, export, r, error) : 0;
}

int
config_file_apply_server(const struct config_file *file, struct server_config *config, char **error)
{
	bool server = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < file->count; i++) {
		const struct config_line *line = &file->lines[i];

		if (is_section(line)) {
			server = strcmp(line->name, "server") == 0;
			if (!server && !export_of_section(line))
				r = error_set(
					error, -EINVAL,
					"%s:%u: unknown section [%s]; there are [server] and [export NAME]",
					file->path, line->number, line->name);
		} else if (server) {
			r = apply_line(file, line, config, NULL, error);
		}
	}
	return r;
}

static int
config_begin_export(const struct config_file *file, const struct config_line *line,
		    struct server_config *config, struct export_config **export, char **error)
{
	char *CLEANUP_FREE sentence = NULL;
	int r = config_add_export(config, export_of_section(line), export, &sentence);

	if (r == -EEXIST)
		return error_set(error, -EINVAL, "%s:%u: %s", file->path, line->number,
				 sentence ? sentence : "this export exists already");
	return r;
}

int
config_file_apply_exports(const struct config_file *file, struct server_config *config,
			  char **error)
{
	struct export_config *export = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < file->count; i++) {
		const struct config_line *line = &file->lines[i];

		if (is_section(line)) {
			export = NULL;
			if (export_of_section(line))
				r = config_begin_export(file, line, config, &export, error);
		} else if (export) {
			r = apply_line(file, line, config, export, error);
		}
	}
	return r;
}
