/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of an export, as users write them: "1000", "read:1000,write:500", "100M,burst:1G".
 * Those of all clients together, and those of each client by itself, have the same form.
 */
#ifndef SERVER_LIMIT_LIMITS_H
#define SERVER_LIMIT_LIMITS_H

#include "common/json.h"

#include <stdbool.h>
#include <stdint.h>

#define CONNECTIONS_LIMIT_MAX 1000000

enum limit_scope {
	LIMIT_EXPORT, /* for all clients of the export together */
	LIMIT_CLIENT, /* for each client of it by itself */
	LIMIT_SCOPES,
};

enum limit_kind {
	LIMIT_IOPS,      /* in operations */
	LIMIT_BANDWIDTH, /* in bytes */
	LIMIT_KINDS,
};

/* Operations or bytes per second; 0: no limit. If `both` is one, `read` and `write` are 0. */
struct limit_rate {
	uint64_t both; /* reads and writes together */
	uint64_t read, write;
	uint64_t burst; /* operations or bytes at once, after a rest; 0: not given */
};

struct limits {
	struct limit_rate rates[LIMIT_KINDS];
	unsigned int connections; /* 0: no limit */
};

/* The values of the options; NULL: not given. */
struct limit_texts {
	const char *rates[LIMIT_KINDS];
	const char *connections;
};

/* "iops-limit", "bandwidth-limit"; with "client-" before it for each client. */
const char *
limit_option(enum limit_scope scope, enum limit_kind kind);

/* Reads a value of that option: parts with commas or blanks between them; NULL or "0": no limit.
 * 0, or -EINVAL with *error a sentence that begins with the option (caller frees). */
int
limit_rate_parse(enum limit_scope scope, enum limit_kind kind, const char *text,
		 struct limit_rate *rate, char **error);

/* Sets those limits that are given. As above. */
int
limits_parse(enum limit_scope scope, const struct limit_texts *texts, struct limits *limits,
	     char **error);

/* Returns whether there is a limit of operations or bytes. */
bool
limits_rates_any(const struct limits *limits);

/* Returns whether the limits of operations and bytes are the same. */
bool
limits_rates_same(const struct limits *a, const struct limits *b);

bool
limits_same(const struct limits *a, const struct limits *b);

/* Writes "limits" or "client_limits", an object. */
void
limits_put_json(struct json *json, enum limit_scope scope, const struct limits *limits);

#endif
