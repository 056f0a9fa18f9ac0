/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/keys/certificates.h"

#include "common/log.h"
#include "common/secret_file.h"
#include "tool/failure.h"
#include "tool/keys/new_files.h"

#include <errno.h>
#include <glib.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- certtool(1), a program of GnuTLS.  Keys stay in files that only their owner can read:
 * certtool gets no secret but by them. */

/* Two files, in PEM. */
struct certtool_pair {
	const char *certificate, *key;
};

/* Returns what certtool prints (g_free), or NULL with an error: ENOENT, EIO if it was killed, or
 * `code` if it fails. The words of its command line end with NULL. */
static char *__attribute__((sentinel))
certtool_run(int code, GError **error, const char *option, ...)
{
	g_autoptr(GPtrArray) words = g_ptr_array_new();
	g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), "LC_ALL", "C", TRUE);
	g_autofree char *output = NULL, *said = NULL;
	g_autoptr(GError) reason = NULL;
	va_list more;
	int status;

	g_ptr_array_add(words, (gpointer) "certtool");
	va_start(more, option);
	for (const char *word = option; word; word = va_arg(more, const char *))
		g_ptr_array_add(words, (gpointer)word);
	va_end(more);
	g_ptr_array_add(words, NULL);
	if (!g_spawn_sync(NULL, (char **)words->pdata, environment, G_SPAWN_SEARCH_PATH,
			  new_files_in_child, NULL, &output, &said, &status, &reason))
		return g_error_matches(reason, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT)
			       ? FAILURE_NULL(error, ENOENT,
					      "certificates are made by certtool, which is not "
					      "installed (Debian package: gnutls-bin; Fedora: "
					      "gnutls-utils)")
			       : FAILURE_NULL(error, EIO, "certtool: %s", reason->message);
	if (g_spawn_check_wait_status(status, &reason))
		return g_steal_pointer(&output);
	if (!WIFEXITED(status))
		return FAILURE_NULL(error, EIO, "certtool: %s", reason->message);
	/* The last line is the error. */
	g_strchomp(said);
	return FAILURE_NULL(error, code, "certtool: %s",
			    strrchr(said, '\n') ? strrchr(said, '\n') + 1 : said);
}

/* Checks that the files are a certificate and its key, all of both.  EINVAL: they are not. */
static bool
certtool_check(const struct certtool_pair *pair, GError **error)
{
	g_autoptr(GError) reason = NULL;
	const char *wrong = "certificate", *path = pair->certificate;
	g_autofree char *of_certificate = certtool_run(
		EINVAL, &reason, "--pubkey-info", "--no-text", "--load-certificate", path, NULL);
	g_autofree char *of_key = NULL;

	if (of_certificate) {
		wrong = "private key";
		path = pair->key;
		of_key = certtool_run(EINVAL, &reason, "--pubkey-info", "--no-text",
				      "--load-privkey", path, NULL);
	}
	if (of_key)
		return g_str_equal(of_certificate, of_key) ||
		       failure(error, EINVAL, "%s is not the key of %s", pair->key,
			       pair->certificate);
	return failure_is(reason, EINVAL)
		       ? failure(error, EINVAL, "%s is no %s: %s", path, wrong, reason->message)
		       : failure_pass(error, &reason);
}

/* Makes a key (ECDSA on P-256) and its certificate, signed by `authority`, or by itself (NULL).
 * `template`: a file of certtool's that tells what the certificate is for. */
static bool
certtool_make(const struct certtool_pair *pair, const struct certtool_pair *authority,
	      const char *template, GError **error)
{
	g_autofree char *key =
		certtool_run(EIO, error, "--generate-privkey", "--key-type=ecdsa",
			     "--curve=secp256r1", "--no-text", "--outfile", pair->key, NULL);
	g_autofree char *certificate = NULL;

	if (key && authority)
		certificate =
			certtool_run(EIO, error, "--generate-certificate", "--load-ca-certificate",
				     authority->certificate, "--load-ca-privkey", authority->key,
				     "--load-privkey", pair->key, "--template", template,
				     "--no-text", "--outfile", pair->certificate, NULL);
	else if (key)
		certificate = certtool_run(EIO, error, "--generate-self-signed", "--load-privkey",
					   pair->key, "--template", template, "--no-text",
					   "--outfile", pair->certificate, NULL);
	/* A full disk is no error for certtool. */
	return certificate && certtool_check(pair, error);
}

/* When the certificate in a file ends; 0: *error is set. */
static time_t
certtool_end(const char *certificate, GError **error)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	g_autofree char *text =
		certtool_run(EINVAL, error, "--certificate-info", "--infile", certificate, NULL);
	const char *line = text ? strstr(text, "Not After: ") : NULL;
	char month[4] = "";
	struct tm end = {0};

	if (!text)
		return 0;
	/* "Not After: Sat Nov 25 15:03:11 UTC 2036" */
	if (!line ||
	    sscanf(line, "Not After: %*s %3s %d %d:%d:%d UTC %d", month, &end.tm_mday, &end.tm_hour,
		   &end.tm_min, &end.tm_sec, &end.tm_year) != 6 ||
	    strlen(month) != 3 || !strstr(months, month)) {
		failure(error, EINVAL, "certtool doesn't tell when %s ends", certificate);
		return 0;
	}
	end.tm_mon = (int)(strstr(months, month) - months) / 3;
	end.tm_year -= 1900;
	return timegm(&end);
}

enum {
	SECRET_MODE = 0600,
	SERVER_MODE = 0640, /* for the group of the server's directory */
	PUBLIC_MODE = 0644,
	DIRECTORY_MODE = 0700,
	NAME_MAX_BYTES = 64, /* ub-common-name of RFC 5280 */
	AUTHORITY_DAYS = 3650,
	DAY = 86400, /* seconds */
	/* A client whose clock is slow would refuse a certificate of this moment. */
	EARLIER = 3600,
};

#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:"

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

/* It becomes the name of a directory, too, and a text in quotation marks. */
static bool
check_client(const char *name, GError **error)
{
	bool good = *name && *name != '.' && !strpbrk(name, "/\\\"") &&
		    strlen(name) <= NAME_MAX_BYTES && g_utf8_validate(name, -1, NULL);

	for (const char *c = name; *c; c++)
		good = good && !g_ascii_iscntrl(*c);
	return good || failure(error, EINVAL,
			       "--client=%s can't be a client's name: it has 1 to %d bytes, no "
			       "slash, backslash or quotation mark, and no dot at its beginning",
			       name, NAME_MAX_BYTES);
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

struct maker {
	const struct certificates_wanted *wanted;
	struct new_files files;
	struct certtool_pair authority;
	char *paths[2]; /* of the authority, if it was there */
	time_t end;     /* of the certificates */
};

/* Returns the path to write the file under; NULL: it is there already, and not to be replaced, as
 * the authority's own never are. */
static const char *
maker_add_file(struct maker *maker, const char *directory, const char *name, mode_t mode,
	       GError **error)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	struct stat old;
	const bool is_there = stat(path, &old) == 0;

	if (!is_there || (maker->wanted->replace && maker->authority.key))
		return new_files_add(&maker->files, path, mode, is_there ? &old : NULL);
	return FAILURE_NULL(error, EEXIST,
			    "%s is there already: to make another certificate in its place, use "
			    "--replace",
			    path);
}

/* Makes a key and a certificate.  `lines`: what certtool is told of the certificate. */
static bool
maker_add_pair(struct maker *maker, const char *directory, const char *kind, time_t end,
	       const char *lines, struct certtool_pair *pair, GError **error)
{
	g_autofree char *certificate = g_strconcat(kind, "-cert.pem", NULL);
	g_autofree char *key = g_strconcat(kind, "-key.pem", NULL);
	g_autofree char *template = g_build_filename(maker->files.drafts, "template", NULL);
	g_autoptr(GDateTime) from = g_date_time_new_from_unix_utc(time(NULL) - EARLIER),
			     until = g_date_time_new_from_unix_utc(end);
	g_autofree char *begins = g_date_time_format(from, "%Y-%m-%d %H:%M:%S UTC"),
			*ends = g_date_time_format(until, "%Y-%m-%d %H:%M:%S UTC");
	g_autofree char *text = g_strdup_printf("%sactivation_date = \"%s\"\n"
						"expiration_date = \"%s\"\n",
						lines, begins, ends);
	g_autoptr(GError) reason = NULL;
	bool made;

	pair->certificate = maker_add_file(maker, directory, certificate, PUBLIC_MODE, error);
	pair->key = pair->certificate ? maker_add_file(maker, directory, key,
						       g_str_equal(kind, "server") ? SERVER_MODE
										   : SECRET_MODE,
						       error)
				      : NULL;
	if (!pair->key)
		return false;
	if (!g_file_set_contents(template, text, -1, &reason))
		return failure(error, EIO, "%s", reason->message);
	made = certtool_make(pair, maker->authority.key ? &maker->authority : NULL, template,
			     error);
	unlink(template);
	return made;
}

/* ---- the authority of the directory */

static bool
maker_make_authority(struct maker *maker, GError **error)
{
	/* Some programs tell CAs apart by their names.  No CAs are below it. */
	g_autofree char *lines = g_strdup_printf("cn = \"nbdloop CA %08x\"\nca\npath_len = 0\n"
						 "cert_signing_key\ncrl_signing_key\n",
						 g_random_int());
	struct certtool_pair made;

	maker->end = time(NULL) + AUTHORITY_DAYS * (time_t)DAY;
	if (!maker_add_pair(maker, maker->wanted->directory, "ca", maker->end, lines, &made, error))
		return false;
	maker->authority = made;
	return true;
}

static bool
maker_find_authority(struct maker *maker, GError **error)
{
	const char *directory = maker->wanted->directory;
	char *certificate = g_build_filename(directory, "ca-cert.pem", NULL),
	     *key = g_build_filename(directory, "ca-key.pem", NULL);
	struct stat st;

	maker->paths[0] = certificate;
	maker->paths[1] = key;
	if (!g_file_test(certificate, G_FILE_TEST_EXISTS))
		return maker_make_authority(maker, error);
	if (stat(key, &st) < 0)
		return failure(error, ENOENT,
			       "%s is not there: certificates can only be made in the directory in "
			       "which %s was made, or one with both files",
			       key, certificate);
	/* certtool would wait for the other end of a FIFO. */
	if (!S_ISREG(st.st_mode) || !g_file_test(certificate, G_FILE_TEST_IS_REGULAR))
		return failure(error, EINVAL, "%s: Not a regular file",
			       S_ISREG(st.st_mode) ? certificate : key);
	if (SECRET_FILE_IS_OPEN(st.st_mode))
		log_warning("%s: " SECRET_FILE_OPEN, key, (unsigned int)st.st_mode & 07777, key);
	maker->authority = (struct certtool_pair){certificate, key};
	if (!certtool_check(&maker->authority, error))
		return false;
	maker->end = certtool_end(certificate, error);
	if (maker->end == 0)
		return false;
	return maker->end > time(NULL) ||
	       failure(error, EINVAL,
		       "%s has expired: make another CA, and new certificates, in an empty "
		       "directory",
		       certificate);
}

/* ---- certificates */

/* Gives the certificates their end, no later than the authority's. */
static bool
maker_set_end(struct maker *maker, GError **error)
{
	const unsigned int days = maker->wanted->days;
	const time_t now = time(NULL), end = now + days * (time_t)DAY;

	if (days && end > maker->end)
		return failure(error, EINVAL,
			       "--days=%u: the CA itself is valid for %lld more days", days,
			       (long long)(maker->end - now) / DAY);
	maker->end = days ? end : maker->end;
	return true;
}

static bool
maker_add_server(struct maker *maker, GError **error)
{
	char *const *names = maker->wanted->servers;
	g_autoptr(GString) lines = g_string_new("tls_www_server\nsigning_key\n");
	struct certtool_pair pair;

	if (!names)
		return true;
	/* Clients look at the names in the extension only. */
	g_string_append_printf(lines, "cn = \"%s\"\n",
			       strlen(names[0]) <= NAME_MAX_BYTES ? names[0] : "server");
	for (; *names; names++)
		g_string_append_printf(lines, "%s = \"%s\"\n",
				       g_hostname_is_ip_address(*names) ? "ip_address" : "dns_name",
				       *names);
	return maker_add_pair(maker, maker->wanted->directory, "server", maker->end, lines->str,
			      &pair, error);
}

static bool
maker_add_client(struct maker *maker, const char *name, GError **error)
{
	g_autofree char *directory = g_build_filename(maker->wanted->directory, name, NULL);
	g_autofree char *lines =
		g_strdup_printf("tls_www_client\nsigning_key\ncn = \"%s\"\n", name);
	g_autofree char *text = NULL;
	g_autoptr(GError) reason = NULL;
	struct certtool_pair pair;
	const char *own;

	if (!new_files_add_directory(&maker->files, directory, DIRECTORY_MODE, error))
		return false;
	own = maker_add_file(maker, directory, "ca-cert.pem", PUBLIC_MODE, error);
	if (!own)
		return false;
	if (!g_file_get_contents(maker->authority.certificate, &text, NULL, &reason) ||
	    !g_file_set_contents(own, text, -1, &reason))
		return failure(error, EIO, "%s", reason->message);
	return maker_add_pair(maker, directory, "client", maker->end, lines, &pair, error);
}

bool
certificates_make(const struct certificates_wanted *wanted, GError **error)
{
	struct maker maker = {.wanted = wanted};
	bool made;

	if (!check_names(wanted, error))
		return false;
	if (!new_files_make_directory(wanted->directory, error))
		return false;
	made = new_files_begin(&maker.files, wanted->directory, error) &&
	       maker_find_authority(&maker, error) && maker_set_end(&maker, error) &&
	       maker_add_server(&maker, error);
	for (char *const *name = wanted->clients; made && name && *name; name++)
		made = maker_add_client(&maker, *name, error);
	made = made && new_files_make(&maker.files, error);
	if (made)
		new_files_print(&maker.files);
	new_files_end(&maker.files);
	g_free(maker.paths[0]);
	g_free(maker.paths[1]);
	return made;
}
