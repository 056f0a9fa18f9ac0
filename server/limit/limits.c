/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/limit/limits.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fewer bytes per second are a slip: a number without its unit. */
#define LEAST_BANDWIDTH 4096

static const struct {
	const char *options[LIMIT_SCOPES], *json;
	const char *allowed;
} kinds[LIMIT_KINDS] = {
	[LIMIT_IOPS] = {{"iops-limit", "client-iops-limit"},
			"iops",
			"must be operations per second, such as 1000, or read:1000,write:500; "
			"burst:2000 may follow; 0 means no limit"},
	[LIMIT_BANDWIDTH] = {{"bandwidth-limit", "client-bandwidth-limit"},
			     "bandwidth",
			     "must be bytes per second, at least 4k, such as 100M, or "
			     "read:100M,write:50M; burst:1G may follow; 0 means no limit"},
};

static const char *const connections_options[LIMIT_SCOPES] = {"connections-limit",
							      "client-connections-limit"};

const char *
limit_option(enum limit_scope scope, enum limit_kind kind)
{
	return kinds[kind].options[scope];
}

/* ---- reading */

enum part {
	PART_BOTH,
	PART_READ,
	PART_WRITE,
	PART_BURST,
	PARTS,
};

/* A part without a name comes last: it is all that is left. */
static const char *const part_names[PARTS] = {
	[PART_READ] = "read:", [PART_WRITE] = "write:", [PART_BURST] = "burst:", [PART_BOTH] = ""};

struct parts {
	bool given[PARTS];
	uint64_t values[PARTS];
};

static int
parse_part(enum limit_kind kind, const char *text, struct parts *parts)
{
	unsigned int part = PARTS - 1;
	uint64_t value;

	while (strncmp(text, part_names[part], strlen(part_names[part])) != 0)
		part--;
	text += strlen(part_names[part]);
	if (parts->given[part] || unit_parse_size(text, &value) < 0)
		return -EINVAL;
	/* "10k" operations could be 10,000 or 10,240. */
	if (kind == LIMIT_IOPS && text[strspn(text, "0123456789")])
		return -EINVAL;
	parts->given[part] = true;
	parts->values[part] = value;
	return part == PART_BURST || kind == LIMIT_IOPS || value == 0 || value >= LEAST_BANDWIDTH
		       ? 0
		       : -EINVAL;
}

/* A burst needs a limit, and one for both excludes one for either. */
static bool
parts_agree(const struct parts *parts)
{
	bool either = parts->given[PART_READ] || parts->given[PART_WRITE];

	if (parts->given[PART_BOTH] == either)
		return false;
	return !parts->given[PART_BURST] || parts->values[PART_BOTH] || parts->values[PART_READ] ||
	       parts->values[PART_WRITE];
}

static int
parse_parts(enum limit_kind kind, char *text, struct limit_rate *rate)
{
	struct parts parts = {0};
	char *part;

	while ((part = strsep(&text, ", ")) != NULL) {
		if (*part && parse_part(kind, part, &parts) < 0)
			return -EINVAL;
	}
	if (!parts_agree(&parts))
		return -EINVAL;
	*rate = (struct limit_rate){.both = parts.values[PART_BOTH],
				    .read = parts.values[PART_READ],
				    .write = parts.values[PART_WRITE],
				    .burst = parts.values[PART_BURST]};
	return 0;
}

int
limit_rate_parse(enum limit_scope scope, enum limit_kind kind, const char *text,
		 struct limit_rate *rate, char **error)
{
	char *CLEANUP_FREE copy = NULL;

	*rate = (struct limit_rate){0};
	if (!text)
		return 0;
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	if (parse_parts(kind, copy, rate) == 0)
		return 0;
	return error_set(error, -EINVAL, "%s=%s: %s", limit_option(scope, kind), text,
			 kinds[kind].allowed);
}

static int
parse_connections(enum limit_scope scope, const char *text, unsigned int *connections, char **error)
{
	uint64_t number;

	if (text[strspn(text, "0123456789")] || unit_parse_size(text, &number) < 0 ||
	    number > CONNECTIONS_LIMIT_MAX)
		return error_set(error, -EINVAL,
				 "%s=%s: must be a number up to %u; 0 means no limit",
				 connections_options[scope], text, CONNECTIONS_LIMIT_MAX);
	*connections = (unsigned int)number;
	return 0;
}

int
limits_parse(enum limit_scope scope, const struct limit_texts *texts, struct limits *limits,
	     char **error)
{
	int r = 0;

	for (unsigned int kind = 0; r == 0 && kind < LIMIT_KINDS; kind++) {
		if (texts->rates[kind])
			r = limit_rate_parse(scope, kind, texts->rates[kind], &limits->rates[kind],
					     error);
	}
	if (r == 0 && texts->connections)
		r = parse_connections(scope, texts->connections, &limits->connections, error);
	return r;
}

/* ---- comparing and telling */

bool
limits_rates_any(const struct limits *limits)
{
	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		const struct limit_rate *rate = &limits->rates[kind];

		if (rate->both || rate->read || rate->write)
			return true;
	}
	return false;
}

bool
limits_rates_same(const struct limits *a, const struct limits *b)
{
	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		const struct limit_rate *one = &a->rates[kind], *other = &b->rates[kind];

		if (one->both != other->both || one->read != other->read ||
		    one->write != other->write || one->burst != other->burst)
			return false;
	}
	return true;
}

bool
limits_same(const struct limits *a, const struct limits *b)
{
	return limits_rates_same(a, b) && a->connections == b->connections;
}

void
limits_put_json(struct json *json, enum limit_scope scope, const struct limits *limits)
{
	json_object_begin(json, scope == LIMIT_CLIENT ? "client_limits" : "limits");
	for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++) {
		const struct limit_rate *rate = &limits->rates[kind];

		json_object_begin(json, kinds[kind].json);
		json_put_uint(json, "both", rate->both);
		json_put_uint(json, "read", rate->read);
		json_put_uint(json, "write", rate->write);
		json_put_uint(json, "burst", rate->burst);
		json_object_end(json);
	}
	json_put_uint(json, "connections", limits->connections);
	json_object_end(json);
}
