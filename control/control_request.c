/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the control socket: the parser.
 */
#include "control/control_request.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define EXPORT_KEY "export="

/* Takes the next word off *rest, which is then past the blanks behind it. */
static char *
next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " ");
	char *end = word + strcspn(word, " ");

	*rest = end + strspn(end, " ");
	*end = '\0';
	return word;
}

/* What may end a request: nothing, or export= and all that follows. */
static int
parse_export(const char *rest, struct control_request *request)
{
	if (!*rest)
		return 0;
	if (strncmp(rest, EXPORT_KEY, strlen(EXPORT_KEY)) != 0)
		return -EINVAL;
	request->export_name = rest + strlen(EXPORT_KEY);
	return 0;
}

static int
parse_set(char *rest, struct control_request *request)
{
	const char *setting = next_word(&rest);

	if (strcmp(setting, "direct-io=on") == 0)
		request->direct_io = true;
	else if (strcmp(setting, "direct-io=off") != 0)
		return -EINVAL;
	return parse_export(rest, request);
}

static int
parse_remove(const char *rest, struct control_request *request)
{
	return *rest ? parse_export(rest, request) : -EINVAL;
}

static int
parse_add(const char *rest, struct control_request *request)
{
	request->addition = rest;
	return strchr(rest, '=') ? 0 : -EINVAL;
}

int
control_request_parse(char *line, struct control_request *request, const char **error)
{
	const char *verb = next_word(&line);
	int r;

	*request = (struct control_request){0};
	if (strcmp(verb, "status") == 0) {
		request->verb = CONTROL_STATUS;
		r = *line ? -EINVAL : 0;
		*error = "status: nothing may follow it";
	} else if (strcmp(verb, "set") == 0) {
		request->verb = CONTROL_SET;
		r = parse_set(line, request);
		*error = "set: must be \"set direct-io=on\" or \"set direct-io=off\", "
			 "then nothing or \"export=NAME\"";
	} else if (strcmp(verb, "resize") == 0) {
		request->verb = CONTROL_RESIZE;
		r = parse_export(line, request);
		*error = "resize: only \"export=NAME\" may follow it";
	} else if (strcmp(verb, "add") == 0) {
		request->verb = CONTROL_ADD;
		r = parse_add(line, request);
		*error = "add: must be \"add NAME=PATH\", with further options behind commas";
	} else if (strcmp(verb, "remove") == 0) {
		request->verb = CONTROL_REMOVE;
		r = parse_remove(line, request);
		*error = "remove: must be \"remove export=NAME\"";
	} else {
		r = -EINVAL;
		*error = "unknown request: must be \"status\", "
			 "\"set direct-io=on|off [export=NAME]\", \"resize [export=NAME]\", "
			 "\"add NAME=PATH\" or \"remove export=NAME\"";
	}
	if (!r)
		*error = NULL;
	return r;
}
