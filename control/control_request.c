/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses requests of the control socket.
 */
#include "control/control_request.h"

#include "common/option_row.h"
#include "common/unit.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT_KEY "export="

/* Returns the next word, and moves *rest past it and the blanks after it. */
static char *
next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " ");
	char *end = word + strcspn(word, " ");

	*rest = end + strspn(end, " ");
	*end = '\0';
	return word;
}

/* The value of `word` if it is "KEY=VALUE"; else NULL. */
static const char *
request_value(const char *word, const char *key)
{
	size_t length = strlen(key);

	return strncmp(word, key, length) == 0 ? word + length : NULL;
}

/* Parses the end of a request: nothing, or export= with a name up to the end of the line. */
static int
parse_export(const char *rest, struct control_request *request)
{
	if (!*rest)
		return 0;
	request->export_name = request_value(rest, EXPORT_KEY);
	return request->export_name ? 0 : -EINVAL;
}

/* A setting whose value is text. */
struct text_setting {
	enum control_verb verb; /* all settings of a request have the same */
	const char *key;
	const char **place; /* of the value */
};

static const struct text_setting *
setting_of(const struct text_setting *settings, const char *word)
{
	while (settings->key && !request_value(word, settings->key))
		settings++;
	return settings->key ? settings : NULL;
}

/* Parses rules, or limits, each at most once; `word` is the first of them. */
static int
parse_texts(const char *word, char *rest, struct control_request *request)
{
	const struct text_setting settings[] = {
		{CONTROL_SET_RULES, "allow=", &request->allow},
		{CONTROL_SET_RULES, "allow-write=", &request->allow_write},
		{CONTROL_SET_LIMITS, "iops-limit=", &request->limits.iops},
		{CONTROL_SET_LIMITS, "bandwidth-limit=", &request->limits.bandwidth},
		{CONTROL_SET_LIMITS, "connections-limit=", &request->limits.connections},
		{CONTROL_SET_LIMITS, "client-iops-limit=", &request->client_limits.iops},
		{CONTROL_SET_LIMITS, "client-bandwidth-limit=", &request->client_limits.bandwidth},
		{CONTROL_SET_LIMITS,
		 "client-connections-limit=", &request->client_limits.connections},
		{.key = NULL},
	};

	request->verb = CONTROL_SET;
	for (;;) {
		const struct text_setting *setting = setting_of(settings, word);

		if (!setting || *setting->place ||
		    (request->verb != CONTROL_SET && request->verb != setting->verb))
			return -EINVAL;
		request->verb = setting->verb;
		*setting->place = request_value(word, setting->key);
		if (!*rest || request_value(rest, EXPORT_KEY))
			return parse_export(rest, request);
		word = next_word(&rest);
	}
}

static int
parse_set(char *rest, struct control_request *request)
{
	const char *setting = next_word(&rest);
	const char *value = request_value(setting, "direct-io=");

	if (!value)
		return parse_texts(setting, rest, request);
	value = option_choice_name(value);
	request->verb = CONTROL_SET;
	request->direct_io = strcmp(value, "on") == 0;
	return request->direct_io || strcmp(value, "off") == 0 ? parse_export(rest, request)
							       : -EINVAL;
}

/* A number of seconds from 1 on. */
static int
parse_seconds(const char *text, unsigned int *seconds)
{
	uint64_t number;

	if (text[strspn(text, "0123456789")] || unit_parse_size(text, &number) < 0 || number == 0 ||
	    number > INT32_MAX)
		return -EINVAL;
	*seconds = (unsigned int)number;
	return 0;
}

/* One of the words after the name. */
static int
parse_snapshot_word(const char *word, struct control_request *request)
{
	const char *size = request_value(word, "scratch-size="),
		   *time = request_value(word, "expire=");

	if (size && !request->scratch_size)
		return unit_parse_size(size, &request->scratch_size) < 0 || !request->scratch_size
			       ? -EINVAL
			       : 0;
	if (time && !request->expire)
		return parse_seconds(time, &request->expire);
	if (!request->scratch) {
		request->scratch = request_value(word, "scratch=");
		if (request->scratch)
			return *request->scratch ? 0 : -EINVAL;
	}
	if (request->checkpoint)
		return -EINVAL;
	request->checkpoint = request_value(word, "checkpoint=");
	return request->checkpoint && *request->checkpoint ? 0 : -EINVAL;
}

/* A word that stands for itself: each at most once. */
static bool
take_switch(const char *word, const char *name, bool *on)
{
	bool taken = !*on && strcmp(word, name) == 0;

	*on = *on || taken;
	return taken;
}

static int
parse_snapshot(char *rest, struct control_request *request)
{
	int r = 0;

	request->snapshot = next_word(&rest);
	if (!*request->snapshot || request_value(request->snapshot, EXPORT_KEY))
		return -EINVAL;
	while (r == 0 && *rest && !request_value(rest, EXPORT_KEY)) {
		const char *word = next_word(&rest);

		if (!take_switch(word, "all", &request->all) &&
		    !take_switch(word, "local", &request->local))
			r = parse_snapshot_word(word, request);
	}
	if (r < 0 || (request->all && *rest))
		return -EINVAL;
	return parse_export(rest, request);
}

static int
parse_checkpoint(char *rest, struct control_request *request)
{
	const char *action = next_word(&rest);

	if (strcmp(action, "create") == 0)
		request->verb = CONTROL_CREATE_CHECKPOINT;
	else if (strcmp(action, "delete") == 0)
		request->verb = CONTROL_DELETE_CHECKPOINT;
	else
		return -EINVAL;
	request->checkpoint = next_word(&rest);
	if (!*request->checkpoint || strchr(request->checkpoint, '='))
		return -EINVAL;
	if (request->verb == CONTROL_CREATE_CHECKPOINT && request_value(rest, "granularity="))
		request->granularity = request_value(next_word(&rest), "granularity=");
	return parse_export(rest, request);
}

int
control_request_parse(char *line, struct control_request *request, const char **error)
{
	const char *verb = next_word(&line);
	int r = -EINVAL;

	*request = (struct control_request){0};
	if (strcmp(verb, "status") == 0) {
		request->verb = CONTROL_STATUS;
		r = *line ? -EINVAL : 0;
		*error = "status: nothing may follow it";
	} else if (strcmp(verb, "set") == 0) {
		r = parse_set(line, request);
		*error =
			"set: must be \"set direct-io=on\" or \"set direct-io=off\", or \"set\" with "
			"\"allow=RULES\", \"allow-write=RULES\" or both, or \"set\" with some of "
			"\"iops-limit=LIMIT\", \"bandwidth-limit=LIMIT\" and "
			"\"connections-limit=N\", or these with \"client-\" before them (commas and "
			"no blanks within a value), then nothing or \"export=NAME\"";
	} else if (strcmp(verb, "resize") == 0) {
		request->verb = CONTROL_RESIZE;
		r = parse_export(line, request);
		*error = "resize: only \"export=NAME\" may follow it";
	} else if (strcmp(verb, "reload") == 0) {
		request->verb = CONTROL_RELOAD;
		r = *line ? -EINVAL : 0;
		*error = "reload: nothing may follow it";
	} else if (strcmp(verb, "listen") == 0) {
		request->verb = CONTROL_LISTEN;
		r = *line ? -EINVAL : 0;
		*error = "listen: nothing may follow it";
	} else if (strcmp(verb, "add") == 0) {
		request->verb = CONTROL_ADD;
		request->addition = line;
		r = strchr(line, '=') ? 0 : -EINVAL;
		*error = "add: must be \"add NAME=PATH\", with further options after commas";
	} else if (strcmp(verb, "remove") == 0) {
		request->verb = CONTROL_REMOVE;
		r = *line ? parse_export(line, request) : -EINVAL;
		*error = "remove: must be \"remove export=NAME\"";
	} else if (strcmp(verb, "disconnect") == 0) {
		request->verb = CONTROL_DISCONNECT;
		request->clients = next_word(&line);
		if (*request->clients && !request_value(request->clients, EXPORT_KEY))
			r = parse_export(line, request);
		*error =
			"disconnect: must be \"disconnect RULES\", with commas and no blanks between "
			"them, then nothing or \"export=NAME\"";
	} else if (strcmp(verb, "snapshot") == 0) {
		request->verb = CONTROL_SNAPSHOT;
		r = parse_snapshot(line, request);
		*error = "snapshot: must be \"snapshot NEW\", then each at most once, without "
			 "blanks, \"scratch=DIR\", \"scratch-size=SIZE\", "
			 "\"expire=SECONDS\", \"checkpoint=NAME\", \"local\" and \"all\", then "
			 "nothing or, without \"all\", \"export=NAME\"";
	} else if (strcmp(verb, "checkpoint") == 0) {
		r = parse_checkpoint(line, request);
		*error = "checkpoint: must be \"checkpoint create NAME [granularity=SIZE]\" or "
			 "\"checkpoint delete NAME\", then nothing or \"export=NAME\"";
	} else {
		*error =
			"unknown request: must be \"status\", "
			"\"set direct-io=on|off [export=NAME]\", "
			"\"set allow=RULES [allow-write=RULES] [export=NAME]\", "
			"\"set [client-]iops-limit=LIMIT [[client-]bandwidth-limit=LIMIT] "
			"[[client-]connections-limit=N] [export=NAME]\", \"resize [export=NAME]\", \"reload\", \"listen\", \"add NAME=PATH\", \"remove export=NAME\", "
			"\"disconnect RULES [export=NAME]\", "
			"\"checkpoint create NAME [granularity=SIZE] [export=NAME]\", "
			"\"checkpoint delete NAME [export=NAME]\" or "
			"\"snapshot NEW [scratch=DIR] [scratch-size=SIZE] [expire=SECONDS] "
			"[checkpoint=NAME] [local] [all|export=NAME]\"";
	}
	if (!r)
		*error = NULL;
	return r;
}
