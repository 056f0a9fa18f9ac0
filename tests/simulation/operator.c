/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/operator.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/client.h"
#include "tests/simulation/event.h"
#include "tests/simulation/limit_model.h"
#include "tests/simulation/model.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A change may wait for a stuck disk, and others for it. */
#define ANSWER_LIMIT (60 * SECOND)

/* Of checkpoints and snapshots. */
#define NAMES MODEL_CHECKPOINTS

#define RULES "set allow=any allow-write="

static bool stopping, running;
static const char *control;

/* Those for all clients, or for each. In a crowd, requests wait for low limits. */
static void
operator_choose_limits(char *text, size_t size)
{
	const char *scope = chance_once_in(2) ? "" : "client-";
	unsigned int iops, bandwidth;

	if (client_plan.crowded) {
		iops = (unsigned int)chance_between(4, 24);
		bandwidth = (unsigned int)chance_between(64, 512);
	} else {
		iops = (unsigned int)chance_between(500, 5000);
		bandwidth = (unsigned int)chance_between(10, 100) * 1024;
	}
	if (chance_once_in(2))
		snprintf(text, size, "set %siops-limit=%u %sbandwidth-limit=%uk\n", scope, iops,
			 scope, bandwidth);
	else if (chance_once_in(2))
		snprintf(text, size, "set %siops-limit=%u\n", scope, iops);
	else
		snprintf(text, size, "set %sbandwidth-limit=%uk\n", scope, bandwidth);
}

static void
operator_choose_rare(char *text, size_t size)
{
	const unsigned int client = (unsigned int)chance_between(1, 3);

	switch (chance_below(client_plan.has_other ? 6 : 3)) {
	case 0: snprintf(text, size, "resize\n"); break;
	case 1: snprintf(text, size, "reload\n"); break;
	case 2:
		snprintf(text, size, "disconnect uid:%u,net:127.0.0.%u\n", 1000 + client,
			 1 + client);
		break;
	case 3: snprintf(text, size, "remove export=extra\n"); break;
	default: snprintf(text, size, "add extra=/disk/other,read-only=on\n");
	}
}

/* Where there are several exports, it must say which. */
static void
operator_name_export(char *text, size_t size)
{
	static const char *const verbs[] = {"set ", "resize", "checkpoint ", "snapshot "};
	const size_t length = strlen(text);

	if ((!client_plan.has_twin && !client_plan.has_other) || strstr(text, "export="))
		return;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strncmp(text, verbs[i], strlen(verbs[i])) == 0)
			snprintf(text + length - 1, size - length + 1, " export=\n");
	}
}

static void
operator_choose_request(char *text, size_t size)
{
	const unsigned int name = (unsigned int)chance_below(NAMES);
	const char *scope = chance_once_in(2) ? "" : "client-";

	if (client_plan.wants_marks) {
		client_plan.wants_marks = false;
		snprintf(text, size, "checkpoint create c%u granularity=4k\n", name);
		return;
	}
	if (chance_once_in(12)) {
		operator_choose_rare(text, size);
		return;
	}
	if (client_plan.crowded && chance_once_in(3)) {
		operator_choose_limits(text, size);
		return;
	}
	switch (chance_below(client_plan.has_twin ? 10 : 9)) {
	case 0: snprintf(text, size, "status\n"); break;
	case 1: snprintf(text, size, "set direct-io=on\n"); break;
	case 2: snprintf(text, size, "set direct-io=off\n"); break;
	case 3: operator_choose_limits(text, size); break;
	case 4:
		snprintf(text, size, "set %siops-limit=0 %sbandwidth-limit=0\n", scope, scope);
		break;
	case 5:
		snprintf(text, size, "checkpoint create c%u%s\n", name,
			 chance_once_in(2) ? " granularity=4k" : "");
		break;
	case 6: snprintf(text, size, "checkpoint delete c%u\n", name); break;
	case 7:
		snprintf(text, size, "snapshot s%u expire=%u%s\n", name,
			 (unsigned int)chance_between(2, 4), chance_once_in(2) ? " local" : "");
		break;
	case 8: snprintf(text, size, "remove export=s%u\n", name); break;
	default:
		snprintf(text, size, RULES "%s export=twin\n", chance_once_in(2) ? "any" : "uid:7");
	}
}

/* Only the beginning of an answer is of interest. Returns whether there is one. */
static bool
operator_read_answer(struct socket *socket, char *answer, size_t size)
{
	const int64_t until = scheduler_now() + ANSWER_LIMIT;
	size_t length = 0;
	char byte;
	int r;

	while ((r = network_receive(socket, &byte, 1, until)) == 0 && byte != '\n') {
		if (length < size - 1)
			answer[length++] = byte;
	}
	answer[length] = '\0';
	if (r == -ETIMEDOUT)
		trace_fail("the operator got no answer for a minute");
	trace("the answer: %s", r < 0 ? "none, the connection has ended" : answer);
	if (r == 0)
		scheduler_note_progress();
	return r == 0;
}

/* The answer of the server that was asked for a snapshot; "": none. */
static void
operator_note_snapshot(unsigned int name, const char *answer, int64_t until)
{
	if (strncmp(answer, "{\"name\":", 8) == 0)
		model_snapshot_made(name, until);
	else if (strstr(answer, "there is one of that name already"))
		model_snapshot_refused(name);
	else
		model_snapshot_removed(name);
}

/* What the rules of the second export are now, or that they may change. */
static void
operator_note_rules(bool known, bool writes)
{
	client_plan.rules++;
	client_plan.rules_known = known && !client_plan.reloads;
	client_plan.twin_writes = writes;
}

static void
operator_ask(void)
{
	struct socket *socket = network_connect(control, 0);
	const unsigned int life = client_plan.life;
	const int64_t begin = scheduler_now();
	char text[100], answer[100] = "";
	unsigned int name, seconds;
	bool snapshot, well;

	if (!socket)
		return;
	operator_choose_request(text, sizeof(text));
	operator_name_export(text, sizeof(text));
	if (!event_happens("asks: %.*s", (int)strcspn(text, "\n"), text)) {
		network_close(socket, false);
		return;
	}
	if (sscanf(text, "checkpoint delete c%u", &name) == 1)
		model_checkpoint_deleted(name);
	limit_model_asked(text);
	if (strncmp(text, "disconnect", 10) == 0)
		client_plan.disconnects = true;
	if (strncmp(text, "reload", 6) == 0) {
		limit_model_begin(false);
		operator_note_rules(false, false);
		client_plan.reloads = true;
	}
	if (sscanf(text, "remove export=s%u", &name) == 1)
		model_snapshot_removed(name);
	snapshot = sscanf(text, "snapshot s%u expire=%u", &name, &seconds) == 2;
	if (snapshot)
		model_snapshot_asked(name);
	if (strncmp(text, RULES, strlen(RULES)) == 0)
		operator_note_rules(false, false);
	trace("asks: %.*s", (int)strcspn(text, "\n"), text);
	/* Now and then it does not wait for the answer. */
	if (network_send(socket, text, strlen(text)) < 0 || chance_once_in(10) ||
	    !operator_read_answer(socket, answer, sizeof(answer)))
		answer[0] = '\0';
	network_close(socket, false);
	well = answer[0] && strncmp(answer, "{\"error\"", 8) != 0 && life == client_plan.life;
	if (well && strncmp(text, RULES, strlen(RULES)) == 0)
		operator_note_rules(true, strstr(text, RULES "any"));
	if (well)
		limit_model_confirmed(text);
	if (well && strncmp(text, "disconnect", 10) == 0) {
		client_plan.disconnects = false;
		client_plan.disconnected++;
	}
	/* The server counts whole seconds. */
	if (snapshot)
		operator_note_snapshot(name, life == client_plan.life ? answer : "",
				       begin + (int64_t)(seconds - 1) * SECOND);
	if (sscanf(answer, "{\"created\":\"c%u\"}", &name) == 1)
		model_checkpoint_created(name);
}

static void *
operator_run(void *data)
{
	(void)data;
	while (!stopping) {
		/* Low limits show what they do only if they last. */
		scheduler_sleep((int64_t)chance_below(client_plan.crowded ? 1000 : 20) *
				MILLISECOND);
		if (client_plan.pause && !stopping && !client_plan.wants_marks)
			scheduler_sleep((int64_t)chance_below((uint64_t)client_plan.pause * 16));
		if (!stopping)
			operator_ask();
	}
	running = false;
	return NULL;
}

void
operator_plan_control(const char *address)
{
	control = address;
}

void
operator_start(void)
{
	stopping = false;
	running = true;
	scheduler_start("operator", NULL, operator_run, NULL);
}

static bool
operator_is_gone(void *data)
{
	(void)data;
	return !running;
}

void
operator_stop(void)
{
	stopping = true;
	scheduler_wait("the operator to leave", operator_is_gone, NULL, FOR_EVER);
}
