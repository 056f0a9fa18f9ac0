/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's TLS: its certificates and keys, at the start and when they are read again.
 */
#include "server/daemon/server.h"

#include "server/serve/handshakes.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "nbd/tls/credentials.h"

#include <stdio.h>
#include <string.h>

static enum tls_verify
verify_of(const struct server_config *config)
{
	switch (config->tls_verify_peer) {
	case TRISTATE_ON: return TLS_VERIFY_ON;
	case TRISTATE_OFF: return TLS_VERIFY_OFF;
	default: return TLS_VERIFY_AUTO;
	}
}

static int
load(const struct server_config *config, struct tls_credentials **credentials, char **error)
{
	const struct tls_files files = {
		.side = TLS_SERVER,
		.certificates = config->tls_certificates,
		.psk = config->tls_psk,
		.priority = config->tls_priority,
		.verify = verify_of(config),
	};

	return tls_credentials_load(&files, credentials, error);
}

int
server_read_tls(struct server *server, char **error)
{
	if (config_tls(server->config) == TLS_CHOICE_OFF)
		return 0;
	return load(server->config, &server->credentials, error);
}

/* What a client needs. */
static const char *
needs(const struct server_config *config, bool verify)
{
	if (config->tls_certificates && config->tls_psk)
		return verify ? "with a certificate or a key" : "with any certificate or none";
	if (config->tls_psk)
		return "with a key";
	return verify ? "with a certificate" : "which need no certificate";
}

int
server_start_tls(struct server *server)
{
	const struct server_config *config = server->config;
	int r;

	if (!server->credentials)
		return 0;
	server->verifies = tls_credentials_verify(server->credentials);
	r = handshakes_new(&server->handshakes, steal_pointer(&server->credentials), worker_post);
	if (r < 0) {
		log_error("cannot start the threads of TLS: %s", strerror(-r));
		return r;
	}
	log_info("TLS is %s for clients, %s",
		 config_tls(config) == TLS_CHOICE_REQUIRE ? "required" : "possible",
		 needs(config, server->verifies));
	return 0;
}

void
server_reread_tls(struct server *server)
{
	struct tls_credentials *credentials;
	char *CLEANUP_FREE error = NULL;
	int r;

	if (!server->handshakes)
		return;
	r = load(server->config, &credentials, &error);
	if (r < 0) {
		log_error("%s; TLS goes on with what was read before",
			  error ? error : strerror(-r));
		return;
	}
	/* The file may be missing only while it is being replaced. */
	if (server->verifies && !tls_credentials_verify(credentials)) {
		tls_credentials_unref(credentials);
		log_error("%s: there is no " TLS_CA_FILE
			  ", by which the certificates of clients are verified; TLS goes on with "
			  "what was read before (to let in clients without a certificate, start "
			  "with tls-verify-peer=off)",
			  server->config->tls_certificates);
		return;
	}
	server->verifies = tls_credentials_verify(credentials);
	handshakes_set_credentials(server->handshakes, credentials);
	log_info("the certificates and keys of TLS were read again");
}
