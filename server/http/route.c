/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/route.h"

#include "server/exports/server_status.h"
#include "server/http/admission.h"
#include "server/http/metrics.h"
#include "server/http/open_metrics.h"
#include "server/http/pages.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct http_field http_fields[] = {
	/* Only the page's own files are used, and no text becomes a script. */
	{"Content-Security-Policy",
	 "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
	 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cache-Control", "no-store"},
	/* Each request has a connection and its time limit. */
	{"Connection", "close"},
	{NULL, NULL},
};

static void
route_say(struct http_answer *answer, unsigned int code, const char *text)
{
	*answer = (struct http_answer){
		.code = code,
		.type = "text/plain; charset=utf-8",
		.figures = FIGURES_NONE,
		.body = text,
		.size = strlen(text),
	};
}

static void
answer_page(struct http_answer *answer, const struct page *page)
{
	*answer = (struct http_answer){
		.code = 200,
		.type = page->type,
		.figures = FIGURES_NONE,
		.body = page->bytes,
		.size = page->size,
	};
}

static void
answer_figures(struct http_answer *answer, enum http_figures figures)
{
	static const char *const types[FIGURES_KINDS] = {
		[FIGURES_STATUS] = "application/json",
		[FIGURES_METRICS] = METRICS_TEXT_TYPE,
		[FIGURES_OPEN_METRICS] = OPEN_METRICS_TYPE,
	};

	*answer = (struct http_answer){
		.code = 200,
		.type = types[figures],
		.figures = figures,
	};
}

/* Returns whether the request is refused before its path matters. */
static bool
route_refuses(const struct http_request *request, const char *token, struct http_answer *answer)
{
	if (!request->host && !request->older) {
		route_say(answer, 400,
			  "HTTP/1.1 demands the header field Host, which is missing.\n");
		return true;
	}
	/* Nobody can connect who doesn't mean this server, or nobody knows the token who is not
	 * meant to. */
	if (!request->over_unix && !token && !http_host_is_local(request->host)) {
		route_say(
			answer, 421,
			"Without a token (--http-token), this server answers only to localhost and "
			"the addresses of its own machine: 127.0.0.1 or [::1].\n");
		return true;
	}
	if (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0)
		return false;
	route_say(answer, 405, "Only GET and HEAD are possible here: nothing can be changed.\n");
	answer->field = "Allow";
	answer->value = "GET, HEAD";
	return true;
}

void
http_route(const struct http_request *request, const char *token, struct http_answer *answer)
{
	const struct page *page = page_find(request->path);
	bool metrics = strcmp(request->path, "/metrics") == 0;

	if (route_refuses(request, token, answer))
		return;
	if (page) {
		answer_page(answer, page);
	} else if (!metrics && strcmp(request->path, "/status.json") != 0) {
		route_say(answer, 404, "There is /, /metrics and /status.json.\n");
	} else if (token && !http_token_fits(token, request->authorization)) {
		route_say(
			answer, 401,
			"The figures need a token: Authorization: Bearer TOKEN (the content of the "
			"file of --http-token).\n");
		answer->field = "WWW-Authenticate";
		answer->value = "Bearer realm=\"nbdloopd\"";
	} else if (!metrics) {
		answer_figures(answer, FIGURES_STATUS);
	} else {
		answer_figures(answer, open_metrics_wanted(request->accept) ? FIGURES_OPEN_METRICS
									    : FIGURES_METRICS);
	}
}

int
http_figures_write(enum http_figures figures, const struct status *status, char **text,
		   size_t *size)
{
	const struct control_request request = {.verb = CONTROL_STATUS};
	FILE *out = open_memstream(text, size);
	int r = 0;

	if (!out)
		return -ENOMEM;
	if (figures != FIGURES_STATUS)
		r = metrics_write(out, figures == FIGURES_OPEN_METRICS, status);
	else
		status_handle(&request, out, (void *)status);
	if (!json_text_close(out, text, size))
		return -ENOMEM;
	if (r < 0)
		free(steal_pointer(text));
	return r;
}
