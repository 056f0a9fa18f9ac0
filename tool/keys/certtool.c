/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/keys/certtool.h"

#include "tool/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Returns what certtool prints (g_free), or NULL with an error: ENOENT, or `code` if it fails. The
 * words of its command line end with NULL. */
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
	if (!g_spawn_sync(NULL, (char **)words->pdata, environment, G_SPAWN_SEARCH_PATH, NULL, NULL,
			  &output, &said, &status, &reason))
		return g_error_matches(reason, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT)
			       ? FAILURE_NULL(error, ENOENT,
					      "certificates are made by certtool, which is not "
					      "installed (Debian package: gnutls-bin; Fedora: "
					      "gnutls-utils)")
			       : FAILURE_NULL(error, EIO, "certtool: %s", reason->message);
	if (g_spawn_check_wait_status(status, NULL))
		return g_steal_pointer(&output);
	/* The last line is the error. */
	g_strchomp(said);
	return FAILURE_NULL(error, code, "certtool: %s",
			    strrchr(said, '\n') ? strrchr(said, '\n') + 1 : said);
}

bool
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

bool
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

time_t
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
