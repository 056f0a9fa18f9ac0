/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/server_uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
config_names_address(const struct server_config *config)
{
	return config->unix_socket || config->address || config->port || config->vsock;
}

void
server_uri_put_encoded(FILE *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~/";

	for (; *text; text++) {
		if (strchr(plain, *text))
			fputc(*text, out);
		else
			fprintf(out, "%%%02X", (unsigned char)*text);
	}
}

/* An IPv6 address stands in brackets; the scope of a link-local one follows a "%". */
static void
uri_print_host(FILE *out, const char *address)
{
	const bool bare = strchr(address, ':') && *address != '[';

	if (strcmp(address, "any") == 0)
		address = "localhost";
	fputs(bare ? "[" : "", out);
	for (; *address; address++)
		fputs(*address == '%' ? "%25" : (char[]){*address, '\0'}, out);
	fputs(bare ? "]" : "", out);
}

char *
server_uri(const struct server_config *config, const char *path)
{
	const char *name = config->exports ? config->exports->name : "";
	const enum tls_choice tls = path ? config_tls_unix(config) : config_tls(config);
	const bool inet = config->address || config->port || !config->vsock;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fprintf(out, "nbd%s%s://", tls == TLS_CHOICE_REQUIRE ? "s" : "",
		path   ? "+unix"
		: inet ? ""
		       : "+vsock");
	if (!path && inet) {
		uri_print_host(out, config->address ? config->address[0] : "localhost");
		fprintf(out, ":%u", config->port ? config->port : DEFAULT_PORT);
	} else if (!path) {
		/* This machine, without a hypervisor (VMADDR_CID_LOCAL). */
		fprintf(out, "1:%u", config->vsock);
	}
	fputc('/', out);
	server_uri_put_encoded(out, name);
	if (path) {
		fputs("?socket=", out);
		server_uri_put_encoded(out, path);
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
