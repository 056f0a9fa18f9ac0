/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/keys/psk_file.h"

#include "tool/failure.h"
#include "tool/keys/new_files.h"

#include "common/cleanup.h"
#include "common/secret_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* What some editors put at the beginning of a file (UTF-8). */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

enum {
	KEY_SIZE = 32, /* bytes, as of psktool */
	USER_MAX = 128,
};

/* Overwrites a secret and frees it. */
static void
secret_cleanup(char **secret)
{
	if (*secret)
		explicit_bzero(*secret, strlen(*secret));
	g_free(*secret);
}

#define SECRET_CLEANUP __attribute__((cleanup(secret_cleanup)))

/* GnuTLS takes "#" for the beginning of a name in hexadecimal digits. */
static bool
check_user(const char *user, GError **error)
{
	bool good = *user && *user != '#' && strlen(user) <= USER_MAX &&
		    g_utf8_validate(user, -1, NULL);

	for (const char *c = user; *c; c++)
		good = good && *c != ':' && *c != ' ' && !g_ascii_iscntrl(*c);
	return good || failure(error, EINVAL,
			       "\"%s\" can't be a user's name: it has 1 to %d bytes, no blank, no "
			       "colon, and no # at its beginning",
			       user, USER_MAX);
}

/* "USER:KEY\n", a secret. */
static char *
make_line(const char *user, GError **error)
{
	unsigned char key[KEY_SIZE];
	char digits[2 * KEY_SIZE + 1], *line;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return FAILURE_NULL(error, EIO, "there are no random bytes for a key");
	for (size_t i = 0; i < sizeof(key); i++)
		g_snprintf(digits + 2 * i, 3, "%02x", key[i]);
	line = g_strdup_printf("%s:%s\n", user, digits);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(digits, sizeof(digits));
	return line;
}

/* The line of a user, up to the newline or the end; NULL: there is none. */
static char *
find_line(char *line, const char *user)
{
	const size_t length = strlen(user);

	if (line && g_str_has_prefix(line, BYTE_ORDER_MARK))
		line += strlen(BYTE_ORDER_MARK);
	while (line && *line) {
		char *end = strchr(line, '\n');

		line += strspn(line, " \t\r");
		if (strncmp(line, user, length) == 0 && line[length] == ':')
			return line;
		line = end ? end + 1 : NULL;
	}
	return NULL;
}

/* The text with the user's line added, or in place of the one that was found.  Frees `text`. */
static char *
put_line(char *text, char *found, const char *line)
{
	const size_t length = strlen(text);
	const char *rest = found ? strchr(found, '\n') : NULL;
	char *whole;

	if (found)
		*found = '\0';
	whole = g_strconcat(text, *text && !g_str_has_suffix(text, "\n") ? "\n" : "", line,
			    rest ? rest + 1 : "", NULL);
	explicit_bzero(text, length);
	g_free(text);
	return whole;
}

static bool
put_user(char **text, const char *path, const char *user, bool replace, GError **error)
{
	char *found = find_line(*text, user);
	char *SECRET_CLEANUP line = NULL;

	if (!check_user(user, error))
		return false;
	if (found && !replace)
		return failure(error, EEXIST,
			       "%s has a key for %s already: to make a new one, use --replace",
			       path, user);
	line = make_line(user, error);
	if (line)
		*text = put_line(*text, found, line);
	return line != NULL;
}

/* The text of the file, "" if it is missing (.st_ino of *old is 0 then); NULL: *error is set. */
static char *
read_old(const char *path, struct stat *old, GError **error)
{
	struct secret_file SECRET_FILE_CLEANUP file = {0};
	char *CLEANUP_FREE why = NULL;
	int r;

	*old = (struct stat){.st_ino = 0};
	if (stat(path, old) < 0 && errno == ENOENT)
		return g_strdup("");
	if (old->st_ino && !S_ISREG(old->st_mode))
		return FAILURE_NULL(error, EINVAL, "%s is no file", path);
	r = secret_file_read(&file, path, &why);
	if (r < 0)
		return FAILURE_NULL(error, -r, "%s", why ? why : g_strerror(-r));
	if (strlen(file.bytes) == file.length)
		return g_strdup(file.bytes);
	return FAILURE_NULL(error, EINVAL, "%s is no file of keys", path);
}

static bool
make_file(struct new_files *files, const char *path, char *const *users, bool replace,
	  GError **error)
{
	struct stat old;
	char *SECRET_CLEANUP text = read_old(path, &old, error);
	g_autoptr(GError) reason = NULL;
	const char *draft;

	for (; text && *users; users++) {
		if (!put_user(&text, path, *users, replace, error))
			return false;
	}
	if (!text)
		return false;
	draft = new_files_add(files, path, 0640, old.st_ino ? &old : NULL);
	if (!g_file_set_contents(draft, text, -1, &reason))
		return failure(error, EIO, "%s can't be written: %s", path, reason->message);
	return new_files_make(files, error);
}

bool
psk_file_add(const char *path, char *const *users, bool replace, GError **error)
{
	/* A link stays one. */
	char *real = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? realpath(path, NULL) : NULL;
	g_autofree char *place = g_strdup(real ? real : path);
	g_autofree char *directory = g_path_get_dirname(place);
	struct new_files files;
	bool made = new_files_begin(&files, directory, error) &&
		    make_file(&files, place, users, replace, error);

	free(real);
	if (made)
		new_files_print(&files);
	new_files_end(&files);
	return made;
}
