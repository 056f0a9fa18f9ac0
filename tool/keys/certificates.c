/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/keys/certificates.h"

#include "tool/failure.h"
#include "tool/keys/authority.h"
#include "tool/keys/new_files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
	SECRET_MODE = 0600,
	PUBLIC_MODE = 0644,
	DIRECTORY_MODE = 0700,
	CLIENT_MAX = 64, /* bytes: a common name has no more */
};

#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:"

static bool
make_directory(const char *path, GError **error)
{
	return mkdir(path, DIRECTORY_MODE) == 0 || errno == EEXIST ||
	       failure_errno(error, errno, "the directory %s can't be made", path);
}

/* ---- the names */

/* A host's name may begin with "*.", an address may have colons. */
static bool
check_server(const char *name, GError **error)
{
	const char *rest = g_str_has_prefix(name, "*.") ? name + 2 : name;

	return (*rest && strspn(rest, HOST_CHARACTERS) == strlen(rest)) ||
	       failure(error, EINVAL,
		       "--server=%s is neither a host name nor an address, such as nas.example or "
		       "192.0.2.1",
		       name);
}

/* It becomes the name of a directory, too. */
static bool
check_client(const char *name, GError **error)
{
	bool good = *name && *name != '.' && !strchr(name, '/') && strlen(name) <= CLIENT_MAX &&
		    g_utf8_validate(name, -1, NULL);

	for (const char *c = name; *c; c++)
		good = good && !g_ascii_iscntrl(*c);
	return good || failure(error, EINVAL,
			       "--client=%s can't be a client's name: it has 1 to %d bytes, no "
			       "slash, and no dot at its beginning",
			       name, CLIENT_MAX);
}

static bool
check_names(const struct certificates_wanted *wanted, GError **error)
{
	for (char *const *name = wanted->servers; name && *name; name++) {
		if (!check_server(*name, error))
			return false;
	}
	for (char *const *name = wanted->clients; name && *name; name++) {
		if (!check_client(*name, error))
			return false;
	}
	return true;
}

/* ---- files */

/* Refuses to replace a file unless that is wanted. */
static bool
add_file(struct new_files *files, const char *directory, const char *name, mode_t mode,
	 char *content, bool replace, GError **error)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	struct stat old;
	const bool is_there = stat(path, &old) == 0;

	new_files_add(files, path, mode, content, is_there ? &old : NULL);
	return !is_there || replace ||
	       failure(error, EEXIST,
		       "%s is there already: to make another certificate in its place, use --replace",
		       path);
}

/* Takes over the PEM. */
static bool
add_pair(struct new_files *files, const char *directory, const char *kind,
	 struct certificate_pem *pem, bool replace, GError **error)
{
	g_autofree char *certificate = g_strconcat(kind, "-cert.pem", NULL);
	g_autofree char *key = g_strconcat(kind, "-key.pem", NULL);
	const bool fresh = add_file(files, directory, certificate, PUBLIC_MODE, pem->certificate,
				    replace, error);

	return add_file(files, directory, key, SECRET_MODE, pem->key, replace,
			fresh ? error : NULL) &&
	       fresh;
}

/* ---- the authority of the directory */

static bool
make_authority(struct authority *authority, struct new_files *files, const char *directory,
	       GError **error)
{
	struct certificate_pem pem;

	return authority_make(authority, &pem, error) &&
	       add_pair(files, directory, "ca", &pem, false, error);
}

static bool
find_authority(struct authority *authority, struct new_files *files, const char *directory,
	       GError **error)
{
	g_autofree char *certificate = g_build_filename(directory, "ca-cert.pem", NULL);
	g_autofree char *key = g_build_filename(directory, "ca-key.pem", NULL);

	if (!g_file_test(certificate, G_FILE_TEST_EXISTS))
		return make_authority(authority, files, directory, error);
	if (!g_file_test(key, G_FILE_TEST_EXISTS))
		return failure(error, ENOENT,
			       "%s is not there: certificates can only be made in the directory in "
			       "which %s was made, or one with both files",
			       key, certificate);
	return authority_load(authority, certificate, key, error);
}

/* ---- certificates */

static bool
add_server(const struct authority *authority, const struct certificates_wanted *wanted,
	   struct new_files *files, GError **error)
{
	struct certificate_pem pem;

	return !wanted->servers ||
	       (authority_issue_server(authority, wanted->servers, wanted->days, &pem, error) &&
		add_pair(files, wanted->directory, "server", &pem, wanted->replace, error));
}

static bool
add_client(const struct authority *authority, const struct certificates_wanted *wanted,
	   const char *name, struct new_files *files, GError **error)
{
	g_autofree char *directory = g_build_filename(wanted->directory, name, NULL);
	char *own = authority_certificate(authority, error);
	struct certificate_pem pem;

	if (!own)
		return false;
	if (!new_files_add_directory(files, directory, DIRECTORY_MODE, error)) {
		g_free(own);
		return false;
	}
	return add_file(files, directory, "ca-cert.pem", PUBLIC_MODE, own, wanted->replace,
			error) &&
	       authority_issue_client(authority, name, wanted->days, &pem, error) &&
	       add_pair(files, directory, "client", &pem, wanted->replace, error);
}

static bool
make_all(const struct certificates_wanted *wanted, struct new_files *files, GError **error)
{
	struct authority authority = {.key = NULL};
	bool good = find_authority(&authority, files, wanted->directory, error) &&
		    add_server(&authority, wanted, files, error);

	for (char *const *name = wanted->clients; good && name && *name; name++)
		good = add_client(&authority, wanted, *name, files, error);
	authority_fini(&authority);
	return good && new_files_make(files, error);
}

bool
certificates_make(const struct certificates_wanted *wanted, GError **error)
{
	struct new_files files;
	bool made;

	if (!check_names(wanted, error) || !make_directory(wanted->directory, error))
		return false;
	made = new_files_begin(&files, wanted->directory, error) && make_all(wanted, &files, error);
	if (made)
		new_files_print(&files);
	new_files_end(&files);
	return made;
}
