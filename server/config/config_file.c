/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/config_file.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "common/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define EXPORT "export"
#define BLANKS " \t\r"
#define SUFFIX ".conf"

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
config_take_line(struct config_file *file, const char *path, char *text, unsigned int number,
		 char **error)
{
	struct config_line *line = &file->lines[file->count];
	char *equals;

	text = config_trim(text);
	if (text[0] == '\0' || text[0] == '#' || text[0] == ';')
		return 0;
	*line = (struct config_line){.path = path, .number = number};
	if (text[0] == '[') {
		size_t length = strlen(text);

		if (text[length - 1] != ']')
			return error_set(error, -EINVAL,
					 "%s:%u: a section is [server] or [export NAME]", path,
					 number);
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
			path, number, text);
	*equals = '\0';
	line->name = config_trim(text);
	line->value = config_trim(equals + 1);
	file->count++;
	return 0;
}

static int
config_read_text(int fd, char **text, size_t *length)
{
	char *CLEANUP_FREE buffer = NULL;
	size_t used = 0, size = 4096;
	ssize_t n;

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

/* Takes over the text, also if there is no memory. */
static int
config_keep_text(struct config_file *file, char *text)
{
	char **longer = reallocarray(file->texts, file->text_count + 1, sizeof(*longer));

	if (longer)
		file->texts = longer;
	if (!text || !longer) {
		free(text);
		return -ENOMEM;
	}
	longer[file->text_count++] = text;
	return 0;
}

/* Splits the text of the file. */
static int
config_take_text(struct config_file *file, const char *path, char *text, char **error)
{
	const size_t first = file->count;
	unsigned int number = 0;
	struct config_line *longer;
	size_t lines = 1;
	char *rest;
	int r = 0;

	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	longer = reallocarray(file->lines, first + lines, sizeof(*longer));
	if (!longer)
		return -ENOMEM;
	file->lines = longer;
	/* A byte order mark, as some editors write it. */
	rest = text + (strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0);
	while (r == 0 && rest) {
		char *line = strsep(&rest, "\n");

		r = config_take_line(file, path, line, ++number, error);
	}
	if (r == 0 && file->count > first && file->lines[first].value)
		r = error_set(error, -EINVAL,
			      "%s:%u: a section must come first: [server] or [export NAME]", path,
			      file->lines[first].number);
	return r;
}

/* `fd`: of the file, or -errno of its opening. */
static int
config_take_file(struct config_file *file, const char *path, int fd, char **error)
{
	char *CLEANUP_FREE text = NULL;
	size_t size = 0;
	int r = fd < 0 ? fd : config_read_text(fd, &text, &size);

	if (r < 0)
		return error_set(error, r, "configuration file %s: %s", path,
				 regular_file_strerror(-r));
	if (strlen(text) < size)
		return error_set(error, -EINVAL, "configuration file %s: not a text file", path);
	r = config_keep_text(file, strdup(path));
	if (r == 0)
		r = config_keep_text(file, steal_pointer(&text));
	return r < 0 ? r
		     : config_take_text(file, file->texts[file->text_count - 2],
					file->texts[file->text_count - 1], error);
}

int
config_file_read(struct config_file *file, const char *path, char **error)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);

	return config_take_file(file, path, fd < 0 ? -errno : fd, error);
}

void
config_file_fini(struct config_file *file)
{
	for (size_t i = 0; i < file->text_count; i++)
		free(file->texts[i]);
	free(file->texts);
	free(file->lines);
	*file = (struct config_file){0};
}

/* ---- sections */

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

/* ---- including */

/* Editors and packages leave others there. */
int
config_file_is_included(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name), suffix = strlen(SUFFIX);

	return entry->d_name[0] != '.' && length > suffix &&
	       strcmp(entry->d_name + length - suffix, SUFFIX) == 0;
}

/* The same order in every locale. */
static int
config_compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int
config_include_file(struct config_file *file, const char *directory, const char *name, char **error)
{
	const size_t first = file->count;
	char *CLEANUP_FREE path = NULL;
	int CLEANUP_CLOSE fd = -1;
	int r;

	if (asprintf(&path, "%s/%s", directory, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	/* A FIFO in the directory must not keep a running server from reading the others. */
	fd = regular_file_open(path, O_RDONLY);
	r = config_take_file(file, path, fd, error);
	for (size_t i = first; r == 0 && i < file->count; i++) {
		const struct config_line *line = &file->lines[i];

		if (is_section(line) && !export_of_section(line))
			r = error_set(error, -EINVAL,
				      "%s:%u: unknown section [%s]; an included file has only "
				      "sections [export NAME]",
				      line->path, line->number, line->name);
	}
	return r;
}

int
config_file_include(struct config_file *file, const char *directory, char **error)
{
	struct dirent **entries;
	int count = scandir(directory, &entries, config_file_is_included, config_compare_names);
	int r = 0;

	if (count < 0)
		return error_set(error, -errno, "include=%s: %s", directory, strerror(errno));
	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = config_include_file(file, directory, entries[i]->d_name, error);
		free(entries[i]);
	}
	free(entries);
	return r;
}

/* ---- applying */

/* Returns what is wrong with a value if its quotes, or the comment after it, are not meant to
 * belong to it; or NULL. */
static const char *
line_stray_text(const struct config_line *line)
{
	const char *value = line->value;
	const size_t length = strlen(value);

	for (const char *c = value; *c; c++) {
		if ((*c == '#' || *c == ';') && c > value && strchr(BLANKS, c[-1]))
			return "a comment after a value belongs to the value: give it a line of "
			       "its own";
	}
	if (length >= 2 && (*value == '"' || *value == '\'') && value[length - 1] == *value)
		return "quotes belong to the value: leave them out";
	return NULL;
}

/* A text may contain all of that, and any path is possible. */
static void
line_warn(const struct config_line *line, const struct option_row *row)
{
	const bool is_text = row->type == OPTION_STRING || row->type == OPTION_LIST;
	const bool is_quoted = *line->value == '"' || *line->value == '\'';
	const char *stray = is_text ? line_stray_text(line) : NULL;

	if (stray && (is_quoted || option_is_path(row) || row->type == OPTION_LIST))
		log_warning("%s:%u: %s=%s: %s", line->path, line->number, line->name, line->value,
			    stray);
}

/* An option with one value must not be set twice: one of the values would be lost. */
static int
check_repeated(const struct config_line *line, const struct option_row *row, char **error)
{
	if (!row || row->type == OPTION_LIST)
		return 0;
	for (const struct config_line *other = line - 1; !is_section(other); other--) {
		if (strcmp(other->name, line->name) == 0)
			return error_set(error, -EINVAL, "%s:%u: %s is already set in line %u",
					 line->path, line->number, line->name, other->number);
	}
	return 0;
}

static int
line_fail(const struct config_line *line, int r, const char *sentence, char **error)
{
	const char *stray = line_stray_text(line);

	return error_set(error, r, "%s:%u: %s%s%s", line->path, line->number, sentence,
			 stray ? "; " : "", stray ? stray : "");
}

static int
config_explain_failure(const struct config_line *line, const struct export_config *export, int r,
		       char **error)
{
	char *CLEANUP_FREE sentence = steal_pointer(error);
	struct near_word near = {.word = line->name};
	char hint[NEAR_WORD_HINT];

	if (r == -ENOENT && strcmp(line->name, "file") == 0)
		return error_set(error, -EINVAL, "%s:%u: file belongs in a section [export NAME]",
				 line->path, line->number);
	if (r == -ENOENT && config_find(line->name))
		return error_set(error, -EINVAL, "%s:%u: %s belongs in the section [server]",
				 line->path, line->number, line->name);
	if (r == -ENOENT) {
		options_offer_names(export ? export_option_rows() : export_default_rows(), &near);
		if (!export)
			options_offer_names(server_option_rows, &near);
		return error_set(error, -EINVAL,
				 "%s:%u: unknown option %s%s; nbdloopd.conf(5) lists the options",
				 line->path, line->number, line->name, near_word_hint(&near, hint));
	}
	return sentence ? line_fail(line, -EINVAL, sentence, error) : r;
}

static int
apply_line(const struct config_line *line, struct server_config *config,
	   struct export_config *export, char **error)
{
	const struct option_row *row =
		export ? option_find(export_option_rows(), line->name) : config_find(line->name);
	int r = check_repeated(line, row, error);

	if (r < 0)
		return r;
	r = export ? option_set(export_option_rows(), export, line->name, line->value, error)
		   : config_set(config, line->name, line->value, error);
	if (r < 0)
		return config_explain_failure(line, export, r, error);
	line_warn(line, row);
	return 0;
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
					line->path, line->number, line->name);
		} else if (server) {
			r = apply_line(line, config, NULL, error);
		}
	}
	return r;
}

static int
config_begin_export(const struct config_line *line, struct server_config *config,
		    struct export_config **export, char **error)
{
	char *CLEANUP_FREE sentence = NULL;
	int r = config_add_export(config, export_of_section(line), export, &sentence);

	if (r == -EEXIST)
		return error_set(error, -EINVAL, "%s:%u: %s", line->path, line->number,
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
				r = config_begin_export(line, config, &export, error);
		} else if (export) {
			r = apply_line(line, config, export, error);
		}
	}
	return r;
}

/* ---- blaming */

/* Returns whether the sentence is about the line's option, and the line set it. The command line
 * may have given it another value since. */
static bool
line_is_subject(const struct config_line *line, const struct server_config *config,
		const char *sentence)
{
	const size_t length = strlen(line->name);

	return length > 0 && strncmp(sentence, line->name, length) == 0 &&
	       (sentence[length] == '=' || sentence[length] == ' ' || sentence[length] == ':') &&
	       config_has_value(config, config->refused, line->name, line->value);
}

/* Returns the line in the sections of that export, or of the server (NULL), or NULL. Sets *section
 * to the section's beginning. */
static const struct config_line *
config_find_subject(const struct config_file *file, const struct server_config *config,
		    const char *export, const char *sentence, const struct config_line **section)
{
	bool is_inside = false;

	for (size_t i = 0; i < file->count; i++) {
		const struct config_line *line = &file->lines[i];

		if (is_section(line)) {
			const char *name = export_of_section(line);

			is_inside = export ? name && strcmp(name, export) == 0 : !name;
			if (is_inside)
				*section = line;
		} else if (is_inside && line_is_subject(line, config, sentence)) {
			return line;
		}
	}
	return NULL;
}

int
config_file_blame(const struct config_file *file, const struct server_config *config, int r,
		  char **error)
{
	const char *name = config->refused ? config->refused->name : NULL;
	char *CLEANUP_FREE sentence = steal_pointer(error);
	char *CLEANUP_FREE prefix = NULL;
	const struct config_line *line = NULL, *section = NULL, *server;
	const char *about = sentence;

	if (!sentence)
		return r;
	if (name && asprintf(&prefix, EXPORT " \"%s\": ", name) < 0)
		prefix = NULL;
	if (prefix && strncmp(sentence, prefix, strlen(prefix)) == 0)
		about += strlen(prefix);
	if (name)
		line = config_find_subject(file, config, name, about, &section);
	/* It may be a default of all exports. */
	if (!line)
		line = config_find_subject(file, config, NULL, about, &server);
	if (line)
		return line_fail(line, r, sentence, error);
	if (section)
		return error_set(error, r, "%s:%u: %s", section->path, section->number, sentence);
	*error = steal_pointer(&sentence);
	return r;
}
