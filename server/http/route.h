/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer to a request of HTTP: the page, the status, the metrics, or a refusal.
 * Knows nothing of sockets.
 */
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

struct status;

/* A request; the caller keeps its texts. */
struct http_request {
	const char *method, *path;
	const char *host, *authorization, *accept; /* header fields, or NULL */
	bool over_unix;                            /* it came over a unix socket */
	bool older;                                /* than HTTP/1.1, which demands a host */
};

/* Texts that are made when they are asked for. */
enum http_figures {
	FIGURES_STATUS,       /* /status.json */
	FIGURES_METRICS,      /* /metrics */
	FIGURES_OPEN_METRICS, /* the same, as OpenMetrics */
	FIGURES_KINDS,
	FIGURES_NONE = FIGURES_KINDS,
};

struct http_answer {
	unsigned int code; /* of HTTP */
	const char *type;  /* media type */
	/* A header field that goes with the code ("Allow"), or NULL. */
	const char *field, *value;
	enum http_figures figures; /* the body is these */
	const void *body;          /* without figures */
	size_t size;               /* of the body, in bytes */
};

/* Header fields of all answers, up to one whose name is NULL. */
struct http_field {
	const char *name, *value;
};
extern const struct http_field http_fields[];

/* Answers a request. `token`: what is needed for figures, or NULL: nothing is. */
void
http_route(const struct http_request *request, const char *token, struct http_answer *answer);

/* Writes figures. Those of the status wait for the event loops (server/exports/server_status.h), so
 * this is not to be called on one. Returns 0 with *text, which the caller frees, or -ENOMEM. */
int
http_figures_write(enum http_figures figures, const struct status *status, char **text,
		   size_t *size);

#endif
