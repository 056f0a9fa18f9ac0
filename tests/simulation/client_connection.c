/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/client_connection.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/client_plan.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/model.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process.h"
#include "tests/simulation/trace.h"
#include "tests/simulation/wire.h"

#include "nbd/protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the second export of the image. A flush there promises nothing for the first one. */
#define TWIN "twin"

/* The names of the other image's exports; the operator adds and removes the second one. */
#define OTHER "other"
#define EXTRA "extra"

int
client_receive(struct client *client, void *bytes, size_t size)
{
	const int64_t patience =
		client_plan.patience && !client->leaves && client->number <= client_plan.impatient
			? client_plan.patience
			: ANSWER_LIMIT;
	const int r = network_receive(client->socket, bytes, size, scheduler_now() + patience);

	if (r == -ETIMEDOUT && patience == ANSWER_LIMIT)
		trace_fail("%s got no answer for a minute", client->name);
	return r;
}

void
sent_free(struct sent *sent)
{
	free(sent->bytes);
	free(sent->arrived);
	*sent = (struct sent){0};
}

/* Closes the connection. Returns when the server will know. */
static int64_t
client_part(const struct client *client)
{
	const char *way = "";
	int64_t known_at;

	if (chance_once_in(4)) {
		way = ", by RST";
		known_at = network_close(client->socket, true);
	} else if (client_plan.leaves && chance_once_in(4)) {
		way = ", or is gone";
		known_at = network_vanish(client->socket);
	} else {
		known_at = network_close(client->socket, false);
	}
	trace("hangs up with %u requests unanswered%s", client->in_flight, way);
	return known_at;
}

/* The next connection writes other bytes there, as a file system may that has got an error, or that
 * has changed the page while its write was repeated. */
static void
client_note_repeat(struct client *client, const struct sent *sent)
{
	if (client->repeat_count < WINDOW && sent->type != NBD_CMD_TRIM)
		client->repeats[client->repeat_count++] = (struct sent){
			.used = true,
			.type = NBD_CMD_WRITE,
			.flags = sent->flags & NBD_CMD_FLAG_FUA,
			.first = sent->first,
			.count = sent->count,
		};
}

void
client_hang_up(struct client *client)
{
	const int64_t known_at = client_part(client);

	client->socket = NULL;
	client->leaves = false;
	for (unsigned int i = 0; i < WINDOW; i++) {
		struct sent *sent = &client->sent[i];

		if (sent->write) {
			model_write_abandoned(sent->write, known_at);
			client_note_repeat(client, sent);
		}
		if (sent->request)
			model_read_failed(sent->request);
		sent_free(sent);
	}
	client->in_flight = 0;
}

static int
client_send_option(struct client *client, uint32_t option, const void *data, uint32_t size)
{
	uint8_t header[NBD_OPTION_HEADER_SIZE], *at = put64(header, NBD_OPTION_MAGIC);
	int r;

	put32(put32(at, option), size);
	r = network_send(client->socket, header, sizeof(header));
	return r == 0 && size ? network_send(client->socket, data, size) : r;
}

/* Returns the type of the reply, or -errno; its data in `data`, which has room for 4096 bytes. */
static int64_t
client_receive_option_reply(struct client *client, uint8_t *data)
{
	uint8_t header[NBD_REP_HEADER_SIZE];
	uint32_t size;
	int r = client_receive(client, header, sizeof(header));

	if (r < 0)
		return r;
	size = get32(header + 16);
	if (get64(header) != NBD_REP_MAGIC || size > 4096)
		trace_fail("%s got a wrong reply to an option", client->name);
	r = size ? client_receive(client, data, size) : 0;
	return r < 0 ? r : (int64_t)get32(header + 12);
}

/* Returns 0, or -errno if the connection is over. */
static int
client_choose_replies(struct client *client)
{
	static const uint32_t options[] = {
		[STRUCTURED] = NBD_OPT_STRUCTURED_REPLY,
		[EXTENDED] = NBD_OPT_EXTENDED_HEADERS,
	};
	uint8_t data[4096];
	int64_t type;
	int r;

	client->replies = (enum replies)chance_below(3);
	if (client->replies == SIMPLE)
		return 0;
	r = client_send_option(client, options[client->replies], NULL, 0);
	if (r < 0)
		return r;
	type = client_receive_option_reply(client, data);
	/* Those that have vanished take all places for a while. */
	if (type == NBD_REP_ERR_POLICY)
		return -ECONNREFUSED;
	if (type >= 0 && type != NBD_REP_ACK)
		trace_fail("%s can't have its form of replies", client->name);
	return type < 0 ? (int)type : 0;
}

static void
client_name_export(const struct client *client, char name[16])
{
	name[0] = '\0';
	if (client->taken)
		snprintf(name, 16, "s%u", client->snapshot);
	else if (client->twin)
		snprintf(name, 16, TWIN);
	else if (client->other)
		snprintf(name, 16, "%s", client->other);
}

bool
client_is_at_main(const struct client *client)
{
	return !client->taken && !client->twin && !client->other;
}

unsigned int
client_sectors(const struct client *client)
{
	return client->other ? OTHER_SECTORS : client_plan.sectors;
}

static void
client_note_context(struct client *client, const uint8_t *reply, uint64_t created)
{
	if (memcmp(reply + 4, NBD_DIRTY_BITMAP, strlen(NBD_DIRTY_BITMAP)) == 0) {
		client->created = created;
		client->has_bitmap = true;
		client->bitmap = get32(reply);
		client->looks = created && (client_plan.looks || chance_once_in(2));
	} else {
		client->has_allocation = true;
		client->allocation = get32(reply);
	}
}

/* Chooses the list of holes, and the bitmap of a checkpoint of the image, if there are these.
 * `option`: or only asks whether there are. Returns 0, or -errno if the connection is over. */
static int
client_choose_contexts(struct client *client, uint32_t option)
{
	const bool bitmap = client_is_at_main(client);
	const uint64_t created = model_checkpoint(client->checkpoint);
	uint8_t query[128], data[4096], *at;
	char context[32], name[16];
	int64_t type;
	int r;

	snprintf(context, sizeof(context), NBD_DIRTY_BITMAP "c%u", client->checkpoint);
	client_name_export(client, name);
	at = put_text(query, name);
	at = put_text(put32(at, bitmap ? 2 : 1), NBD_BASE_ALLOCATION);
	if (bitmap)
		at = put_text(at, context);
	r = client_send_option(client, option, query, (uint32_t)(at - query));
	if (r < 0)
		return r;
	while ((type = client_receive_option_reply(client, data)) == NBD_REP_META_CONTEXT) {
		if (option == NBD_OPT_SET_META_CONTEXT)
			client_note_context(client, data, created);
	}
	return type < 0 ? (int)type : 0;
}

/* Looks at what there is, as some clients do. Returns 0, or -errno if the connection is over. */
static int
client_look_around(struct client *client)
{
	uint8_t wish[64], data[4096], *at;
	char name[16];
	int64_t type = 0;
	int r = 0;

	if (chance_once_in(2)) {
		r = client_send_option(client, NBD_OPT_LIST, NULL, 0);
		while (r == 0 &&
		       (type = client_receive_option_reply(client, data)) == NBD_REP_SERVER)
			;
	}
	if (r == 0 && type >= 0 && client->replies != SIMPLE && chance_once_in(2)) {
		r = client_choose_contexts(client, NBD_OPT_LIST_META_CONTEXT);
	} else if (r == 0 && type >= 0) {
		client_name_export(client, name);
		at = put16(put_text(wish, name), 1);
		at = put16(at, (uint16_t)chance_below(4));
		r = client_send_option(client, NBD_OPT_INFO, wish, (uint32_t)(at - wish));
		while (r == 0 && (type = client_receive_option_reply(client, data)) == NBD_REP_INFO)
			;
	}
	return r < 0 ? r : type < 0 ? (int)type : 0;
}

bool
client_is_reader(const struct client *client)
{
	return client->other || (client->twin && client->facts & NBD_FLAG_READ_ONLY);
}

static void
client_note_facts(struct client *client, const uint8_t *facts)
{
	const uint64_t size = get64(facts);

	client->facts = get16(facts + 8);
	if (size != (uint64_t)client_sectors(client) * SECTOR_SIZE)
		trace_fail("%s sees an image of %" PRIu64 " bytes", client->name, size);
	if (client->other && !(client->facts & NBD_FLAG_READ_ONLY))
		trace_fail("%s may write to the other image", client->name);
}

/* In the old way, which has no reply for a refusal: the connection ends. */
static int64_t
client_go_by_name(struct client *client, const char *name)
{
	uint8_t facts[NBD_EXPORT_REPLY_SIZE];
	int r = client_send_option(client, NBD_OPT_EXPORT_NAME, name, (uint32_t)strlen(name));

	if (r == 0)
		r = client_receive(client, facts, sizeof(facts));
	if (r < 0)
		return r;
	client_note_facts(client, facts);
	return NBD_REP_ACK;
}

static int64_t
client_go_in_words(struct client *client, const char *name)
{
	uint8_t data[4096], wish[64], *at = put16(put_text(wish, name), 0);
	int64_t type;
	int r = client_send_option(client, NBD_OPT_GO, wish, (uint32_t)(at - wish));

	if (r < 0)
		return r;
	while ((type = client_receive_option_reply(client, data)) == NBD_REP_INFO) {
		if (get16(data) == NBD_INFO_EXPORT)
			client_note_facts(client, data + 2);
	}
	return type;
}

static int
client_go(struct client *client)
{
	const unsigned int rules = client_plan.rules_known ? client_plan.rules : 0;
	char name[16];
	int64_t type;

	client_name_export(client, name);
	/* The old way has no extended replies. */
	type = client->replies != EXTENDED && chance_once_in(8) ? client_go_by_name(client, name)
								: client_go_in_words(client, name);
	if (type >= 0 && type != NBD_REP_ACK)
		return -ECONNREFUSED;
	/* Another one of that name may have been made. */
	if (client->taken && model_snapshot(client->snapshot) != client->taken)
		return -ECONNREFUSED;
	if (type == NBD_REP_ACK && client->twin && rules && rules == client_plan.rules &&
	    client_is_reader(client) == client_plan.twin_writes)
		trace_fail("%s may write, or may not", client->name);
	return type < 0 ? (int)type : 0;
}

static int
client_shake_hands(struct client *client)
{
	uint8_t greeting[NBD_GREETING_SIZE], flags[4];
	int r = client_receive(client, greeting, sizeof(greeting));

	if (r < 0)
		return r;
	if (get64(greeting) != NBD_MAGIC || get64(greeting + 8) != NBD_OPTION_MAGIC)
		trace_fail("%s is greeted wrongly", client->name);
	put32(flags, NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES);
	r = network_send(client->socket, flags, sizeof(flags));
	if (r == 0)
		r = client_choose_replies(client);
	client->checkpoint = (unsigned int)chance_below(MODEL_CHECKPOINTS);
	for (unsigned int i = 0; i < MODEL_CHECKPOINTS && !model_checkpoint(client->checkpoint);
	     i++)
		client->checkpoint = (client->checkpoint + 1) % MODEL_CHECKPOINTS;
	client->created = 0;
	client->has_allocation = client->has_bitmap = client->looks = false;
	client->twin = !client->taken && client_plan.has_twin && chance_once_in(3);
	client->other =
		!client->taken && !client->twin && client_plan.has_other && chance_once_in(4)
			? (chance_once_in(3) ? EXTRA : OTHER)
			: NULL;
	if (r == 0 && chance_once_in(8))
		r = client_look_around(client);
	if (r == 0 && client->replies != SIMPLE && !chance_once_in(4))
		r = client_choose_contexts(client, NBD_OPT_SET_META_CONTEXT);
	return r == 0 ? client_go(client) : r;
}

/* Half of the time, one of the snapshots that are there. */
static void
client_choose_snapshot(struct client *client)
{
	client->taken = 0;
	if (chance_once_in(2))
		return;
	client->snapshot = (unsigned int)chance_below(MODEL_SNAPSHOTS);
	for (unsigned int i = 0; i < MODEL_SNAPSHOTS && !client->taken; i++) {
		client->snapshot = (client->snapshot + 1) % MODEL_SNAPSHOTS;
		client->taken = model_snapshot(client->snapshot);
	}
}

void
client_connect(struct client *client)
{
	static const char *const forms[] = {"simple", "structured", "extended"};
	unsigned int process;

	client->life = client_plan.life;
	client->disconnected = client_plan.disconnected;
	client_choose_snapshot(client);
	client->alone = client_plan.alone && !network_has_orphans();
	client->socket = network_connect(client_plan.address, client->number);
	process = process_latest();
	if (!client->socket) {
		scheduler_sleep((int64_t)chance_between(1, 20) * MILLISECOND);
		return;
	}
	if (client_shake_hands(client) < 0) {
		client_hang_up(client);
		scheduler_sleep((int64_t)chance_between(1, 20) * MILLISECOND);
		return;
	}
	if (process_haunts(process))
		trace_fail("%s is served while a killed server may still write", client->name);
	trace("connected%s, %s replies", client->taken ? " to a snapshot" : "",
	      forms[client->replies]);
	scheduler_note_progress();
}
