/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/server_tls.h"

#include "server/connection/handshakes.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "nbd/tls/credentials.h"
#include "nbd/tls/ktls.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The clock may be set meanwhile, and poll()'s stands still while the machine sleeps. */
#define WATCH_SECONDS 3600

enum nbd_tls
server_tls_mode(const struct server_config *config)
{
	switch (config_tls(config)) {
	case TLS_CHOICE_ALLOW: return NBD_TLS_ALLOWED;
	case TLS_CHOICE_REQUIRE: return NBD_TLS_REQUIRED;
	default: return NBD_TLS_OFF;
	}
}

enum kernel_tls
server_tls_kernel(const struct server_config *config)
{
	static const enum kernel_tls modes[] = {[TRISTATE_AUTO] = KERNEL_TLS_AUTO,
						[TRISTATE_ON] = KERNEL_TLS_ON,
						[TRISTATE_OFF] = KERNEL_TLS_OFF};

	return modes[config->tls_kernel];
}

static int
tls_load(const struct server_config *config, struct tls_credentials **credentials, char **error)
{
	static const enum tls_verify checks[] = {[TRISTATE_AUTO] = TLS_VERIFY_AUTO,
						 [TRISTATE_ON] = TLS_VERIFY_ON,
						 [TRISTATE_OFF] = TLS_VERIFY_OFF};
	const struct tls_files files = {
		.side = TLS_SERVER,
		.certificates = config->tls_certificates,
		.psk = config->tls_psk,
		.priority = config->tls_priority,
		.verify = checks[config->tls_verify_peer],
	};

	return tls_credentials_load(&files, credentials, error);
}

/* ---- files that the user may not read */

/* Looks for the first directory of the path, or the file itself, that the user may not use: its
 * length in the path, or 0. A file that does not exist is no matter. */
static size_t
tls_find_denied(const char *path)
{
	size_t length = 0;

	while (path[length]) {
		char *CLEANUP_FREE part = NULL;
		const char *slash = strchr(path + length + 1, '/');

		length = slash ? (size_t)(slash - path) : strlen(path);
		part = strndup(path, length);
		if (part && faccessat(AT_FDCWD, part, slash ? X_OK : R_OK, AT_EACCESS) < 0 &&
		    errno == EACCES)
			return length;
	}
	return 0;
}

/* Replaces *error by a sentence that names the user, and the command that lets it read the file.
 * Returns whether the file is one that it may not read. */
static bool
tls_explain_denied(const char *path, char **error)
{
	const size_t length = tls_find_denied(path);
	const struct passwd *user = getpwuid(geteuid());
	const struct group *group = getgrgid(getegid());
	char *text = NULL;

	if (length == 0 || !user || !group ||
	    asprintf(&text, "%s: the user %s may not read it: chgrp %s %.*s && chmod g+%s %.*s",
		     path, user->pw_name, group->gr_name, (int)length, path,
		     path[length] ? "x" : "r", (int)length, path) < 0)
		return length > 0;
	free(*error);
	*error = text;
	return true;
}

/* The same for the first of all files. */
static bool
tls_explain_any_denied(const struct server_config *config, char **error)
{
	static const char *const names[] = {"server-key.pem", "server-cert.pem", TLS_CA_FILE,
					    TLS_CRL_FILE};
	bool denied = config->tls_psk && tls_explain_denied(config->tls_psk, error);

	for (size_t i = 0;
	     config->tls_certificates && !denied && i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = NULL;

		if (asprintf(&path, "%s/%s", config->tls_certificates, names[i]) < 0)
			return false;
		denied = tls_explain_denied(path, error);
		free(path);
	}
	return denied;
}

static int
tls_read_files(const struct server_config *config, struct tls_credentials **credentials,
	       char **error)
{
	int r = tls_load(config, credentials, error);

	return r == -EACCES && tls_explain_any_denied(config, error) ? -CONFIG_MISTAKE : r;
}

int
server_tls_check(const struct server_config *config, char **error)
{
	struct tls_credentials *credentials = NULL;
	int r = config_tls(config) == TLS_CHOICE_OFF ? 0
						     : tls_read_files(config, &credentials, error);

	tls_credentials_unref(credentials);
	return r;
}

int
server_tls_read(struct server_tls *tls, const struct server_config *config, char **error)
{
	char reason[KTLS_REASON_MAX];

	tls->config = config;
	if (config_tls(config) == TLS_CHOICE_OFF) {
		/* Whoever made keys may expect encryption. */
		if (config->tls_certificates || config->tls_psk)
			log_warning("tls=off: nothing is encrypted, and %s is not used",
				    config->tls_psk ? "tls-psk=FILE" : "tls-certificates=DIR");
		return 0;
	}
	/* It has the kernel load its module, for which the server has no privilege later. Each
	 * connection tells if there is none. */
	if (config->tls_kernel != TRISTATE_OFF)
		ktls_missing(reason);
	return tls_read_files(config, &tls->credentials, error);
}

/* What a client needs. */
static const char *
tls_needs(const struct server_config *config, bool verify)
{
	if (config->tls_certificates && config->tls_psk)
		return verify ? "with a certificate or a key" : "with any certificate or none";
	if (config->tls_psk)
		return "with a key";
	return verify ? "with a certificate" : "which need no certificate";
}

static void
tls_note_checks(struct server_tls *tls, const struct tls_credentials *credentials)
{
	tls->verifies = tls_credentials_verify(credentials);
	tls->revokes = tls_credentials_revoke(credentials);
}

/* Returns whether a file is missing that keeps clients out; it may be missing only while it is
 * replaced. */
static bool
tls_would_let_in_more(const struct server_tls *tls, const struct tls_credentials *credentials)
{
	const char *directory = tls->config->tls_certificates;

	if (tls->verifies && !tls_credentials_verify(credentials))
		log_error("%s: there is no " TLS_CA_FILE
			  ", by which the certificates of clients are verified; TLS goes on with "
			  "what was read before (to let in clients without a certificate, start "
			  "with tls-verify-peer=off)",
			  directory);
	else if (tls->revokes && !tls_credentials_revoke(credentials))
		log_error("%s: there is no " TLS_CRL_FILE
			  ", the list of certificates that are revoked; TLS goes on with what was "
			  "read before (to do without the list, start the server again)",
			  directory);
	else
		return false;
	return true;
}

int
server_tls_start(struct server_tls *tls)
{
	const struct server_config *config = tls->config;
	int r;

	if (!tls->credentials)
		return 0;
	tls_note_checks(tls, tls->credentials);
	tls->end = tls_credentials_warn(tls->credentials, 0, time(NULL));
	r = handshakes_new(&tls->handshakes, steal_pointer(&tls->credentials), worker_post);
	if (r < 0) {
		log_error("cannot start the threads of TLS: %s", strerror(-r));
		return r;
	}
	log_info("TLS is %s for clients, %s%s",
		 config_tls(config) == TLS_CHOICE_REQUIRE ? "required" : "possible",
		 tls_needs(config, tls->verifies),
		 config_tls_unix(config) != config_tls(config)
			 ? "; on unix sockets, it is possible (tls=require requires it there)"
			 : "");
	return 0;
}

int
server_tls_reread(struct server_tls *tls)
{
	struct tls_credentials *credentials;
	char *CLEANUP_FREE error = NULL;
	int r;

	if (!tls->handshakes)
		return 0;
	r = tls_load(tls->config, &credentials, &error);
	if (r < 0) {
		log_error("%s; TLS goes on with what was read before",
			  error ? error : strerror(-r));
		return -1;
	}
	if (tls_would_let_in_more(tls, credentials)) {
		tls_credentials_unref(credentials);
		return -1;
	}
	tls_note_checks(tls, credentials);
	log_info("the certificates and keys of TLS were read again");
	atomic_store(&tls->end, tls_credentials_warn(credentials, 0, time(NULL)));
	handshakes_set_credentials(tls->handshakes, credentials);
	return 1;
}

int
server_tls_watch(struct server_tls *tls)
{
	time_t end = atomic_load(&tls->end), now = end ? time(NULL) : 0;
	struct tls_credentials *credentials;
	time_t next;

	if (end && now >= end) {
		credentials = handshakes_credentials(tls->handshakes);
		next = tls_credentials_warn(credentials, end - 1, now);
		tls_credentials_unref(credentials);
		/* Unless the files were read again meanwhile, by another thread. */
		atomic_compare_exchange_strong(&tls->end, &end, next);
		end = next;
	}
	if (!end)
		return 0;
	return 1000 * (int)(end - now < WATCH_SECONDS ? end - now : WATCH_SECONDS);
}

void
server_tls_free(struct server_tls *tls)
{
	handshakes_free(tls->handshakes);
	tls_credentials_unref(tls->credentials);
}
