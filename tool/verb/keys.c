/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop keys: makes the keys and certificates of TLS.
 */
#include "tool/failure.h"
#include "tool/keys/certificates.h"
#include "tool/keys/psk_file.h"
#include "tool/verb/verb.h"

#include <errno.h>

struct keys_options {
	char **servers, **clients;
	unsigned int days, replace;
};

static const struct option_row keys_option_rows[] = {
	{
		.name = "server",
		.type = OPTION_LIST,
		.field = offsetof(struct keys_options, servers),
		.arg = "HOST",
		.help = "certificates: make the server's, for this name or address; may be repeated",
	},
	{
		.name = "client",
		.type = OPTION_LIST,
		.field = offsetof(struct keys_options, clients),
		.arg = "NAME",
		.help = "certificates: make one for the client of this name; may be repeated",
	},
	{
		.name = "days",
		.type = OPTION_UINT,
		.field = offsetof(struct keys_options, days),
		.initial = "0",
		.max = 3650,
		.arg = "N",
		.help = "certificates: how long new ones are valid; 0 means as long as the CA's",
	},
	OPTION_SWITCH("replace", 0, offsetof(struct keys_options, replace),
		      "make new keys or certificates in place of those that are there"),
	{.name = NULL},
};

static bool
keys_check_psk(const struct verb_call *call, GError **error)
{
	const struct keys_options *options = call->options;

	if (options->servers || options->clients || options->days)
		return failure(
			error, EINVAL,
			"--server, --client and --days are for certificates: nbdloop keys psk "
			"FILE USER...");
	return call->count >= 3 ||
	       failure(error, EINVAL, "USER is missing: nbdloop keys psk FILE USER...");
}

static bool
keys_check_certificates(const struct verb_call *call, GError **error)
{
	const struct keys_options *options = call->options;

	if (call->count > 2)
		return failure(error, EINVAL,
			       "\"%s\" is one word too many: nbdloop keys certificates DIRECTORY "
			       "--server=HOST --client=NAME",
			       call->operands[2]);
	return options->servers || options->clients ||
	       failure(error, EINVAL,
		       "nothing is to be made: use --server=HOST, --client=NAME, or both");
}

static bool
keys_check(const struct verb_call *call, GError **error)
{
	const char *kind = call->operands[0];

	if (g_str_equal(kind, "psk"))
		return keys_check_psk(call, error);
	if (g_str_equal(kind, "certificates"))
		return keys_check_certificates(call, error);
	return failure(error, EINVAL,
		       "there are no keys of the kind \"%s\": it is psk or certificates", kind);
}

static bool
run_keys(const struct verb_call *call, GError **error)
{
	const struct keys_options *options = call->options;
	const struct certificates_wanted wanted = {
		.directory = call->operands[1],
		.servers = options->servers,
		.clients = options->clients,
		.days = options->days,
		.replace = options->replace,
	};

	return g_str_equal(call->operands[0], "psk")
		       ? psk_file_add(call->operands[1], call->operands + 2, options->replace,
				      error)
		       : certificates_make(&wanted, error);
}

static void
show_kinds(FILE *out)
{
	fputs("\nKinds of keys:\n"
	      "    psk FILE USER...         a pre-shared key for each USER, added to FILE\n"
	      "    certificates DIRECTORY   certificates of a server and its clients, and their CA\n",
	      out);
}

const struct verb verb_keys = {
	.name = "keys",
	.help = "make keys or certificates for TLS",
	.synopsis = "[OPTION]... KIND FILE|DIRECTORY [USER]...",
	.summary = "Makes keys or certificates for TLS, and prints the names of their files.",
	.rows = keys_option_rows,
	.show_more = show_kinds,
	.least = 2,
	.most = -1,
	.options_size = sizeof(struct keys_options),
	.check = keys_check,
	.run = run_keys,
};
