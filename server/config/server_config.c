/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/server_config.h"

#include "server/config/http_address.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/backing/image_kinds.h"

#include <errno.h>
#include <string.h>

static void
export_config_fini(struct export_config *export)
{
	free(export->name);
	access_release(export->access);
	options_free(export_option_rows(), export);
}

void
export_config_free(struct export_config *export)
{
	export_config_fini(export);
	free(export);
}

int
config_init(struct server_config *config)
{
	int r;

	*config = (struct server_config){0};
	r = options_init(server_option_rows, config);
	if (r == 0)
		r = options_init(export_default_rows(), &config->defaults);
	if (r < 0)
		config_fini(config);
	return r;
}

void
config_fini(struct server_config *config)
{
	while (config->exports) {
		struct export_config *export = config->exports;

		config->exports = export->next;
		export_config_free(export);
	}
	export_config_fini(&config->defaults);
	options_free(server_option_rows, config);
}

int
config_set(struct server_config *config, const char *name, const char *value, char **error)
{
	if (option_find(server_option_rows, name))
		return option_set(server_option_rows, config, name, value, error);
	return option_set(export_default_rows(), &config->defaults, name, value, error);
}

const struct option_row *
config_find(const char *name)
{
	const struct option_row *row = option_find(server_option_rows, name);

	return row ? row : option_find(export_default_rows(), name);
}

static int
config_copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? -ENOMEM : 0;
}

#define LIMIT_TEXT(scope_, kind_)                                                                  \
	{                                                                                          \
		&to->limit_options[scope_].rates[kind_], from->limit_options[scope_].rates[kind_], \
			NULL                                                                       \
	}

int
config_copy_followed(struct export_config *to, const struct export_config *from)
{
	struct {
		char **to;
		const char *from;
		char *copy;
	} texts[] = {
		{&to->allow, from->allow, NULL},      {&to->allow_write, from->allow_write, NULL},
		LIMIT_TEXT(LIMIT_EXPORT, LIMIT_IOPS), LIMIT_TEXT(LIMIT_EXPORT, LIMIT_BANDWIDTH),
		LIMIT_TEXT(LIMIT_CLIENT, LIMIT_IOPS), LIMIT_TEXT(LIMIT_CLIENT, LIMIT_BANDWIDTH),
	};
	const size_t count = sizeof(texts) / sizeof(texts[0]);
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = config_copy_text(&texts[i].copy, texts[i].from);
	for (size_t i = 0; i < count; i++) {
		char *unused = r == 0 ? *texts[i].to : texts[i].copy;

		if (r == 0)
			*texts[i].to = texts[i].copy;
		free(unused);
	}
	for (unsigned int scope = 0; r == 0 && scope < LIMIT_SCOPES; scope++)
		to->limit_options[scope].connections = from->limit_options[scope].connections;
	return r;
}

int
config_copy_defaults(struct export_config *to, const struct export_config *from)
{
	int r = image_config_copy(&to->image, &from->image);

	to->read_only = from->read_only;
	if (r == 0)
		r = config_copy_text(&to->description, from->description);
	if (r == 0)
		r = config_copy_text(&to->changes, from->changes);
	return r < 0 ? r : config_copy_followed(to, from);
}

int
config_add_export(struct server_config *config, const char *name, struct export_config **added,
		  char **error)
{
	struct export_config **end = &config->exports;
	struct export_config *export;

	for (; *end; end = &(*end)->next) {
		if (strcmp((*end)->name, name) != 0)
			continue;
		return error_set(
			error, -EEXIST,
			"there are two exports named \"%s\"; give one of them another name", name);
	}
	export = calloc(1, sizeof(*export));
	if (!export)
		return -ENOMEM;
	*end = *added = export;
	export->name = strdup(name);
	return export->name ? config_copy_defaults(export, &config->defaults) : -ENOMEM;
}

enum tls_choice
config_tls(const struct server_config *config)
{
	if (config->tls != TLS_CHOICE_AUTO)
		return config->tls;
	return config->tls_certificates || config->tls_psk ? TLS_CHOICE_REQUIRE : TLS_CHOICE_OFF;
}

const char *
tls_choice_name(enum tls_choice choice)
{
	static const char *const names[] = {
		[TLS_CHOICE_AUTO] = "auto",
		[TLS_CHOICE_OFF] = "off",
		[TLS_CHOICE_ALLOW] = "allow",
		[TLS_CHOICE_REQUIRE] = "require",
	};

	return names[choice];
}

static int
config_check_tls(const struct server_config *config, char **error)
{
	enum tls_choice tls = config_tls(config);

	if (tls != TLS_CHOICE_OFF && !config->tls_certificates && !config->tls_psk)
		return error_set(
			error, -EINVAL,
			"tls=%s needs certificates (tls-certificates=DIR) or keys (tls-psk=FILE); "
			"nbdloop keys makes them",
			tls == TLS_CHOICE_ALLOW ? "allow" : "require");
	if (config->tls_verify_peer == TRISTATE_ON && !config->tls_certificates)
		return error_set(error, -EINVAL,
				 "tls-verify-peer=on needs certificates: tls-certificates=DIR");
	if (config->tls == TLS_CHOICE_AUTO && tls == TLS_CHOICE_OFF &&
	    (config->tls_priority || config->tls_kernel == TRISTATE_ON))
		return error_set(
			error, -EINVAL,
			"%s needs certificates (tls-certificates=DIR) or keys (tls-psk=FILE); "
			"without them there is no TLS",
			config->tls_priority ? "tls-priority=STRING" : "tls-kernel=on");
	return 0;
}

unsigned int
config_proofs(const struct server_config *config)
{
	unsigned int proofs = 0;

	if (config_tls(config) == TLS_CHOICE_OFF)
		return 0;
	if (config->tls_psk)
		proofs |= RULE_PROOF_KEY;
	/* Nothing of a certificate that is not verified is believed. */
	if (config->tls_certificates && config->tls_verify_peer != TRISTATE_OFF)
		proofs |= RULE_PROOF_CERTIFICATE;
	return proofs;
}

static int
export_read_rules(struct export_config *export, unsigned int proofs, char **error)
{
	char *CLEANUP_FREE reason = NULL;
	int r = access_new(export->allow, export->allow_write, proofs, &export->access, &reason);

	return r < 0 && reason ? error_set(error, r, "export \"%s\": %s", export->name, reason) : r;
}

static int
read_limits(struct export_config *export, char **error)
{
	char *CLEANUP_FREE reason = NULL;
	int r = 0;

	for (unsigned int scope = 0; r == 0 && scope < LIMIT_SCOPES; scope++) {
		const struct limit_options *options = &export->limit_options[scope];
		const struct limit_texts texts = {
			.rates = {[LIMIT_IOPS] = options->rates[LIMIT_IOPS],
				  [LIMIT_BANDWIDTH] = options->rates[LIMIT_BANDWIDTH]},
		};

		r = limits_parse(scope, &texts, &export->limits[scope], &reason);
		export->limits[scope].connections = options->connections;
	}
	return r < 0 && reason ? error_set(error, r, "export \"%s\": %s", export->name, reason) : r;
}

static int
check_http(const struct server_config *config, char **error)
{
	struct http_address address;
	int r;

	if (config->http_token && !config->http)
		return error_set(error, -EINVAL, "http-token=FILE is only for http=ADDRESS:PORT");
	if (!config->http)
		return 0;
	r = http_address_parse(config->http, &address, error);
	if (r == 0)
		http_address_fini(&address);
	return r;
}

/* Defaults may be for only some of the exports. */
static int
check_images(const struct server_config *config, char **error)
{
	const struct image_config *defaults = &config->defaults.image;
	int r = 0;

	for (const struct export_config *export = config->exports; r == 0 && export;
	     export = export->next)
		r = image_kind_check(export->file, &export->image, defaults, error);
	return r;
}

void
config_warn(const struct server_config *config)
{
	for (const struct image_kind *const *kind = image_kinds; *kind; kind++) {
		const char *option = image_kind_option(*kind, &config->defaults.image, NULL);
		const struct export_config *export = config->exports;

		while (export && image_kind_of(export->file) != *kind)
			export = export->next;
		if (option && !export)
			log_warning("%s is not used: it is only for %s, and no export has one",
				    option, (*kind)->all);
	}
}

int
config_check(struct server_config *config, unsigned int proofs, char **error)
{
	int r = 0;

	if (!config->exports)
		return error_set(
			error, -EINVAL,
			"there is no image to serve: name one (nbdloopd disk.img), or use --export or "
			"--config; nbdloopd --help tells more");
	for (struct export_config *export = config->exports; r == 0 && export;
	     export = export->next) {
		if (export->file && export->file[0])
			r = export_read_rules(export, proofs, error);
		else
			r = error_set(error, -EINVAL,
				      "the export \"%s\" has no image: file=PATH is missing",
				      export->name);
		if (r == 0)
			r = read_limits(export, error);
	}
	if (r == 0)
		r = check_images(config, error);
	if (r == 0)
		r = check_http(config, error);
	return r < 0 ? r : config_check_tls(config, error);
}

/* Rules and limits are changed while the server runs. */
static bool
is_followed(const struct option_row *row)
{
	return strcmp(row->name, "allow") == 0 || strcmp(row->name, "allow-write") == 0 ||
	       option_find(limit_option_rows, row->name);
}

static bool
same_value(const struct option_row *row, const void *a, const void *b)
{
	char *CLEANUP_FREE text_a = option_value_text(row, a);
	char *CLEANUP_FREE text_b = option_value_text(row, b);

	return text_a && text_b && strcmp(text_a, text_b) == 0;
}

const char *
export_config_difference(const struct export_config *a, const struct export_config *b)
{
	const struct option_row *row = export_option_rows();

	while (row->name && (is_followed(row) || same_value(row, a, b)))
		row++;
	return row->name;
}

void
config_visit_differences(const struct server_config *a, const struct server_config *b,
			 void (*visit)(const char *name))
{
	for (const struct option_row *row = server_option_rows; row->name; row++) {
		if (!same_value(row, a, b))
			visit(row->name);
	}
}
