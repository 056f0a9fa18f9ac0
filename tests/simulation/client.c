/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/client.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event.h"
#include "tests/simulation/file.h"
#include "tests/simulation/limit_model.h"
#include "tests/simulation/memory.h"
#include "tests/simulation/model.h"
#include "tests/simulation/network.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include "nbd/protocol.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 16

/* The name of the second export of the image. A flush there promises nothing for the first one. */
#define TWIN "twin"

/* The names of the other image's exports; the operator adds and removes the second one. */
#define OTHER "other"
#define EXTRA "extra"

/* A request must be answered within this time, or its connection end. */
#define ANSWER_LIMIT (60 * SECOND)

/* Longer than a server takes a client for present that it has not heard. */
#define LONG_WAIT (120 * MILLISECOND)

enum replies {
	SIMPLE,
	STRUCTURED,
	EXTENDED,
};

struct sent {
	bool used;
	uint16_t type, flags;
	unsigned int first, count; /* sectors */
	uint64_t write;            /* of the model; 0: none */
	uint64_t request;
	int64_t sent_at;
	uint8_t *bytes; /* of a read */
	bool *arrived;  /* its sectors */
	uint32_t error;
};

struct client {
	unsigned int number;
	unsigned int life; /* of the server to which it is connected */
	char name[16];
	struct socket *socket;
	bool twin;         /* it is connected to the second export of the image */
	const char *other; /* the export of the other image to which it is connected; NULL: none */
	unsigned int disconnected; /* of the plan, when it connected */
	enum replies replies;
	uint16_t facts;          /* transmission flags */
	unsigned int checkpoint; /* whose bitmap it has chosen, if `has_bitmap` */
	uint64_t created;        /* when that was created; 0: nobody knows */
	bool has_bitmap;
	uint32_t bitmap;     /* the number of its list */
	bool has_allocation; /* it has chosen the list of holes */
	uint32_t allocation; /* the number of that */
	bool looks;          /* it has not looked at all of the bitmap yet */
	bool leaves;         /* it has sent a disconnect request, and has patience */
	struct sent sent[WINDOW];
	unsigned int in_flight;
	struct sent repeats[WINDOW]; /* changes without an answer, for the next connection */
	unsigned int repeat_count;
	unsigned int snapshot; /* to which it is connected */
	uint64_t taken;        /* when that was made; 0: it is connected to the image */
};

struct client_plan client_plan;
uint64_t client_answers;

static bool stopping;
static unsigned int running;

/* ---- bytes */

static uint8_t *
put16(uint8_t *at, uint16_t value)
{
	value = htobe16(value);
	return mempcpy(at, &value, sizeof(value));
}

static uint8_t *
put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	return mempcpy(at, &value, sizeof(value));
}

static uint8_t *
put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	return mempcpy(at, &value, sizeof(value));
}

/* Its length, and the text. */
static uint8_t *
put_text(uint8_t *at, const char *text)
{
	return mempcpy(put32(at, (uint32_t)strlen(text)), text, strlen(text));
}

static uint16_t
get16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static uint32_t
get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static uint64_t
get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

/* ---- the connection */

static int
client_receive(struct client *client, void *bytes, size_t size)
{
	const int64_t patience =
		client_plan.patience && !client->leaves ? client_plan.patience : ANSWER_LIMIT;
	const int r = network_receive(client->socket, bytes, size, scheduler_now() + patience);

	if (r == -ETIMEDOUT && patience == ANSWER_LIMIT)
		trace_fail("%s got no answer for a minute", client->name);
	return r;
}

static void
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

/* The connection is over, with requests unanswered. */
static void
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

/* Whether it is connected to the first export of the image. */
static bool
client_is_at_main(const struct client *client)
{
	return !client->taken && !client->twin && !client->other;
}

static unsigned int
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

static bool
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

static void
client_connect(struct client *client)
{
	static const char *const forms[] = {"simple", "structured", "extended"};
	unsigned int process;

	client->life = client_plan.life;
	client->disconnected = client_plan.disconnected;
	client_choose_snapshot(client);
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

/* ---- requests */

static void
sent_choose_place(struct sent *sent, unsigned int sectors)
{
	unsigned int largest = chance_once_in(8) ? client_plan.largest : 12;

	if (largest > sectors)
		largest = sectors;
	sent->count = (unsigned int)chance_between(1, largest);
	/* Mostly in a small part, so that requests meet; and at the end. */
	sent->first = (unsigned int)chance_below(chance_once_in(4) ? sectors : 40);
	if (chance_once_in(12))
		sent->first = sectors - sent->count;
	if (sent->first + sent->count > sectors)
		sent->first = sectors - sent->count;
}

static bool
request_changes(uint16_t type)
{
	return type == NBD_CMD_WRITE || type == NBD_CMD_WRITE_ZEROES || type == NBD_CMD_TRIM;
}

static void
client_choose_request(struct client *client, struct sent *sent)
{
	static const uint16_t types[] = {
		NBD_CMD_READ, NBD_CMD_READ,  NBD_CMD_WRITE,        NBD_CMD_WRITE, NBD_CMD_WRITE,
		NBD_CMD_READ, NBD_CMD_FLUSH, NBD_CMD_WRITE_ZEROES, NBD_CMD_TRIM,  NBD_CMD_WRITE,
	};
	const bool lists = client->created || client->has_allocation;

	if (client->repeat_count && !client->taken && !client_is_reader(client)) {
		struct sent *repeat = &client->repeats[chance_below(client->repeat_count)];

		*sent = *repeat;
		*repeat = client->repeats[--client->repeat_count];
		return;
	}
	*sent = (struct sent){.used = true};
	sent->type = types[chance_below(sizeof(types) / sizeof(types[0]))];
	if (client->taken || (sent->type == NBD_CMD_TRIM && !(client->facts & NBD_FLAG_SEND_TRIM)))
		sent->type = NBD_CMD_READ;
	if (sent->type == NBD_CMD_FLUSH)
		return;
	/* A forbidden one, now and then. */
	if (client_is_reader(client) && !chance_once_in(8))
		sent->type = NBD_CMD_READ;
	sent_choose_place(sent, client_sectors(client));
	if (sent->type == NBD_CMD_READ && client->facts & NBD_FLAG_SEND_CACHE && chance_once_in(32))
		sent->type = NBD_CMD_CACHE;
	if (lists && (client->looks || chance_once_in(client->created ? 4 : 16)))
		sent->type = NBD_CMD_BLOCK_STATUS;
	if (sent->type == NBD_CMD_BLOCK_STATUS && client->looks) {
		client->looks = false;
		sent->first = 0;
		sent->count = client_sectors(client);
	}
	if (sent->type == NBD_CMD_BLOCK_STATUS && !client->looks && chance_once_in(8))
		sent->flags |= NBD_CMD_FLAG_REQ_ONE;
	if (request_changes(sent->type) && chance_once_in(4))
		sent->flags |= NBD_CMD_FLAG_FUA;
	if (sent->type == NBD_CMD_WRITE_ZEROES && chance_once_in(2))
		sent->flags |= NBD_CMD_FLAG_NO_HOLE;
	if (sent->type == NBD_CMD_WRITE_ZEROES && client->facts & NBD_FLAG_SEND_FAST_ZERO &&
	    chance_once_in(8))
		sent->flags |= NBD_CMD_FLAG_FAST_ZERO;
	if (sent->type == NBD_CMD_READ && client->replies != SIMPLE && chance_once_in(4))
		sent->flags |= NBD_CMD_FLAG_DF;
}

static void
client_tell_model(const struct client *client, struct sent *sent)
{
	if (sent->type == NBD_CMD_READ) {
		sent->bytes = malloc((size_t)sent->count * SECTOR_SIZE);
		sent->arrived = calloc(sent->count, sizeof(bool));
	}
	/* Of the other image, it is known what it has. */
	if (client->other)
		return;
	switch (sent->type) {
	case NBD_CMD_READ:
	case NBD_CMD_BLOCK_STATUS:
	case NBD_CMD_CACHE:
	case NBD_CMD_FLUSH: sent->request = model_request(); break;
	case NBD_CMD_WRITE: sent->write = model_write(MODEL_DATA, sent->first, sent->count); break;
	case NBD_CMD_WRITE_ZEROES:
		sent->write = model_write(MODEL_ZEROES, sent->first, sent->count);
		break;
	case NBD_CMD_TRIM: sent->write = model_write(MODEL_TRIM, sent->first, sent->count); break;
	}
}

static const char *const request_names[] = {
	[NBD_CMD_READ] = "read",         [NBD_CMD_WRITE] = "write",
	[NBD_CMD_FLUSH] = "flush",       [NBD_CMD_TRIM] = "trim",
	[NBD_CMD_WRITE_ZEROES] = "zero", [NBD_CMD_BLOCK_STATUS] = "lists",
	[NBD_CMD_CACHE] = "cache",
};

static size_t
client_encode(const struct client *client, const struct sent *sent, unsigned int slot,
	      uint8_t *bytes)
{
	const bool extended = client->replies == EXTENDED;
	const uint16_t flags =
		sent->flags |
		(extended && sent->type == NBD_CMD_WRITE ? NBD_CMD_FLAG_PAYLOAD_LEN : 0);
	const uint64_t length = (uint64_t)sent->count * SECTOR_SIZE;
	uint8_t *at = put32(bytes, extended ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC);

	at = put64(put16(put16(at, flags), sent->type), slot);
	at = put64(at, (uint64_t)sent->first * SECTOR_SIZE);
	at = extended ? put64(at, length) : put32(at, (uint32_t)length);
	if (sent->type != NBD_CMD_WRITE)
		return (size_t)(at - bytes);
	for (unsigned int i = 0; i < sent->count; i++, at += SECTOR_SIZE)
		model_fill(sent->write, sent->first + i, at);
	return (size_t)(at - bytes);
}

/* Returns 0, or -errno if the connection is over. */
static int
client_send(struct client *client)
{
	unsigned int slot = 0;
	struct sent *sent;
	uint8_t *bytes;
	size_t size;
	bool leaves;
	int r;

	while (client->sent[slot].used)
		slot++;
	sent = &client->sent[slot];
	client_choose_request(client, sent);
	if (!event_happens("%s %u+%u", request_names[sent->type], sent->first, sent->count)) {
		sent->used = false;
		scheduler_sleep(MILLISECOND);
		return 0;
	}
	client_tell_model(client, sent);
	sent->sent_at = scheduler_now();
	client->in_flight++;
	trace("%s %u+%u%s%s", request_names[sent->type], sent->first, sent->count,
	      sent->flags & NBD_CMD_FLAG_FUA && sent->type != NBD_CMD_READ ? " FUA" : "",
	      sent->write ? "" : ".");
	bytes = malloc(NBD_EXTENDED_REQUEST_SIZE + (size_t)sent->count * SECTOR_SIZE);
	size = client_encode(client, sent, slot, bytes);
	/* Now and then it leaves in the middle of a request. */
	leaves = event_strikes(client_plan.leaves * 4, "leaves in the middle of a request");
	r = network_send(client->socket, bytes, leaves ? chance_below(size) : size);
	free(bytes);
	return leaves ? -EPIPE : r;
}

/* ---- answers */

static const char *
error_name(uint32_t error)
{
	static char text[24];

	snprintf(text, sizeof(text), "error %" PRIu32, error);
	return error ? text : "well";
}

static void
client_check_error(const struct client *client, const struct sent *sent)
{
	const uint32_t error = sent->error;

	if (request_changes(sent->type) && client_is_reader(client)) {
		if (error != NBD_EPERM && error != NBD_ESHUTDOWN)
			trace_fail("%s: a change of a reader was answered with %" PRIu32,
				   client->name, error);
		return;
	}
	if (error == 0)
		return;
	if (error == NBD_ESHUTDOWN && client_plan.ended_lives >> client->life & 1)
		return;
	if (error == NBD_ENOTSUP && sent->flags & NBD_CMD_FLAG_FAST_ZERO)
		return;
	/* The checkpoint was deleted. */
	if (sent->type == NBD_CMD_BLOCK_STATUS && error == NBD_EINVAL)
		return;
	if (error == NBD_ENOMEM && memory_scarcity)
		return;
	if (!client_plan.fails_allowed || (error != NBD_EIO && error != NBD_ENOSPC))
		trace_fail("%s: a %s of %u sectors at %u failed with %" PRIu32, client->name,
			   request_names[sent->type], sent->count, sent->first, error);
}

/* Returns how many bytes a limit counts. */
static uint64_t
sent_data_bytes(const struct sent *sent)
{
	return sent->type == NBD_CMD_READ || sent->type == NBD_CMD_WRITE
		       ? (uint64_t)sent->count * SECTOR_SIZE
		       : 0;
}

static void
sent_check_other(const struct client *client, const struct sent *sent)
{
	uint8_t expected[SECTOR_SIZE];

	for (unsigned int i = 0; i < sent->count; i++) {
		model_fill(OTHER_WRITE, sent->first + i, expected);
		if (memcmp(sent->bytes + (size_t)i * SECTOR_SIZE, expected, SECTOR_SIZE) != 0)
			trace_fail("%s: sector %u of the other image has wrong bytes", client->name,
				   sent->first + i);
	}
}

static void
client_take_answer(struct client *client, struct sent *sent)
{
	client_check_error(client, sent);
	if (!sent->error && sent->type != NBD_CMD_FLUSH && client_is_at_main(client) &&
	    client->life == client_plan.life)
		limit_model_answered(client->number, sent_data_bytes(sent), sent->sent_at);
	trace("%s %u+%u answered: %s", request_names[sent->type], sent->first, sent->count,
	      error_name(sent->error));
	if (sent->write)
		model_write_answered(sent->write, sent->error                      ? MODEL_FAILED
						  : sent->flags & NBD_CMD_FLAG_FUA ? MODEL_DURABLE
										   : MODEL_DONE);
	else if (sent->error)
		model_read_failed(sent->request);
	else if (sent->type == NBD_CMD_FLUSH && client_is_at_main(client))
		model_flush_answered(sent->request);
	else if (sent->type != NBD_CMD_READ)
		model_read_failed(sent->request);
	for (unsigned int i = 0; sent->type == NBD_CMD_READ && !sent->error && i < sent->count; i++)
		if (!sent->arrived[i])
			trace_fail("%s: a read was answered without all bytes", client->name);
	if (sent->type == NBD_CMD_READ && !sent->error && client->other) {
		sent_check_other(client, sent);
	} else if (sent->type == NBD_CMD_READ && !sent->error && client->taken) {
		model_read_failed(sent->request);
		model_snapshot_answered(client->snapshot, client->taken, sent->first, sent->count,
					sent->bytes);
	} else if (sent->type == NBD_CMD_READ && !sent->error)
		model_read_answered(sent->request, sent->first, sent->count, sent->bytes);
	/* Of a server that ends, and of a broken snapshot, which answers without taking any time,
	 * it wants nothing for a moment. */
	if (sent->error == NBD_ESHUTDOWN || (sent->error && client->taken))
		scheduler_sleep(MILLISECOND);
	sent_free(sent);
	client->in_flight--;
	client_answers++;
	scheduler_note_progress();
}

static struct sent *
client_find(struct client *client, uint64_t cookie)
{
	if (cookie >= WINDOW || !client->sent[cookie].used)
		trace_fail("%s got an answer to no request", client->name);
	return &client->sent[cookie];
}

static int
client_receive_simple(struct client *client, const uint8_t *rest)
{
	struct sent *sent = client_find(client, get64(rest + 4));
	int r = 0;

	sent->error = get32(rest);
	if (sent->type == NBD_CMD_READ && client->replies != SIMPLE)
		trace_fail("%s: a read was answered in the simple form", client->name);
	if (sent->type == NBD_CMD_READ && !sent->error) {
		r = client_receive(client, sent->bytes, (size_t)sent->count * SECTOR_SIZE);
		memset(sent->arrived, true, sent->count);
	}
	if (r == 0)
		client_take_answer(client, sent);
	return r;
}

static void
sent_note_arrival(const struct client *client, struct sent *sent, uint64_t offset, uint64_t length)
{
	const uint64_t start = (uint64_t)sent->first * SECTOR_SIZE;

	if (sent->type != NBD_CMD_READ || offset < start || offset % SECTOR_SIZE ||
	    length % SECTOR_SIZE || !length ||
	    offset + length > start + (uint64_t)sent->count * SECTOR_SIZE)
		trace_fail("%s got bytes that it did not ask for", client->name);
	if (sent->flags & NBD_CMD_FLAG_DF && length != (uint64_t)sent->count * SECTOR_SIZE)
		trace_fail("%s got a fragment, in spite of DF", client->name);
	for (uint64_t i = (offset - start) / SECTOR_SIZE; i * SECTOR_SIZE < offset - start + length;
	     i++) {
		if (sent->arrived[i])
			trace_fail("%s got bytes twice", client->name);
		sent->arrived[i] = true;
	}
}

/* The whole sectors of an extent have not changed, or are zeroes. */
static void
client_check_extent(const struct client *client, const struct sent *sent, bool bitmap,
		    unsigned int first, unsigned int end)
{
	if (first >= end)
		return;
	if (client->other)
		trace_fail("%s sees holes in the other image", client->name);
	else if (bitmap)
		model_clean_answered(sent->request, client->checkpoint, client->created, first,
				     end - first);
	else if (!client->taken)
		model_zeroes_answered(sent->request, first, end - first);
	else
		model_snapshot_zeroes(client->snapshot, client->taken, first, end - first);
}

/* The extents of a list: `size` bytes of a chunk. */
static int
client_receive_list(struct client *client, const struct sent *sent, bool wide, uint64_t size)
{
	const size_t head = wide ? 8 : 4, extent = wide ? 16 : 8;
	uint8_t *bytes = malloc(size);
	uint64_t at = (uint64_t)sent->first * SECTOR_SIZE, length;
	bool bitmap;
	int r;

	if (sent->type != NBD_CMD_BLOCK_STATUS || size < head + extent || (size - head) % extent)
		trace_fail("%s got a wrong list", client->name);
	r = client_receive(client, bytes, size);
	bitmap = r == 0 && client->has_bitmap && get32(bytes) == client->bitmap;
	if (r == 0 && !bitmap && !(client->has_allocation && get32(bytes) == client->allocation))
		trace_fail("%s got a list that it did not choose", client->name);
	for (uint64_t i = head; r == 0 && i + extent <= size; i += extent, at += length) {
		const uint64_t flags = wide ? get64(bytes + i + 8) : get32(bytes + i + 4);
		const uint64_t first = (at + SECTOR_SIZE - 1) / SECTOR_SIZE;
		uint64_t end;

		length = wide ? get64(bytes + i) : get32(bytes + i);
		end = (at + length) / SECTOR_SIZE;
		if (end > client_sectors(client))
			end = client_sectors(client);
		if (bitmap ? !(flags & NBD_STATE_DIRTY) : flags & NBD_STATE_ZERO)
			client_check_extent(client, sent, bitmap, (unsigned int)first,
					    (unsigned int)end);
	}
	free(bytes);
	return r;
}

/* One chunk of an answer: `size` bytes that are still to be received. */
static int
client_receive_chunk(struct client *client, uint16_t flags, uint16_t type, uint64_t cookie,
		     uint64_t size)
{
	struct sent *sent = client_find(client, cookie);
	uint8_t head[12];
	uint64_t offset;
	int r = 0;

	if (type == NBD_REPLY_TYPE_OFFSET_DATA || type == NBD_REPLY_TYPE_OFFSET_HOLE) {
		r = client_receive(client, head, type == NBD_REPLY_TYPE_OFFSET_DATA ? 8 : 12);
		if (r < 0)
			return r;
		offset = get64(head);
		size = type == NBD_REPLY_TYPE_OFFSET_DATA ? size - 8 : get32(head + 8);
		sent_note_arrival(client, sent, offset, size);
		offset -= (uint64_t)sent->first * SECTOR_SIZE;
		if (type == NBD_REPLY_TYPE_OFFSET_DATA)
			r = client_receive(client, sent->bytes + offset, size);
		else
			memset(sent->bytes + offset, 0, size);
	} else if (type == NBD_REPLY_TYPE_BLOCK_STATUS || type == NBD_REPLY_TYPE_BLOCK_STATUS_EXT) {
		r = client_receive_list(client, sent, type == NBD_REPLY_TYPE_BLOCK_STATUS_EXT,
					size);
	} else if (type & 0x8000) {
		uint8_t *text = malloc(size + 1);

		r = client_receive(client, text, size);
		text[size] = '\0';
		sent->error = r < 0 ? 0 : get32(text);
		if (r == 0 && size > 6)
			trace("an error: %s", (char *)text + 6);
		free(text);
	} else if (type != NBD_REPLY_TYPE_NONE) {
		trace_fail("%s got a chunk of type %u", client->name, type);
	}
	if (r == 0 && flags & NBD_REPLY_FLAG_DONE)
		client_take_answer(client, sent);
	return r;
}

static int
client_receive_answer(struct client *client)
{
	uint8_t header[NBD_EXTENDED_REPLY_SIZE];
	const size_t more =
		client->replies == EXTENDED ? NBD_EXTENDED_REPLY_SIZE : NBD_SIMPLE_REPLY_SIZE;
	int r = client_receive(client, header, more);
	uint32_t magic;

	if (r < 0)
		return r;
	magic = get32(header);
	if (magic == NBD_SIMPLE_REPLY_MAGIC && client->replies != EXTENDED)
		return client_receive_simple(client, header + 4);
	if (magic == NBD_EXTENDED_REPLY_MAGIC && client->replies == EXTENDED) {
		const struct sent *sent = client_find(client, get64(header + 8));

		if (get64(header + 16) != (uint64_t)sent->first * SECTOR_SIZE)
			trace_fail("%s got an answer with another offset", client->name);
		return client_receive_chunk(client, get16(header + 4), get16(header + 6),
					    get64(header + 8), get64(header + 24));
	}
	if (magic != NBD_STRUCTURED_REPLY_MAGIC || client->replies != STRUCTURED)
		trace_fail("%s got an answer that begins with %08x", client->name, magic);
	r = client_receive(client, header + 16, 4);
	return r < 0 ? r
		     : client_receive_chunk(client, get16(header + 4), get16(header + 6),
					    get64(header + 8), get32(header + 16));
}

/* ---- a disconnect request */

/* Returns whether nobody has ended the server, and nothing but the client can have ended the
 * connection. */
static bool
client_must_be_answered(const struct client *client)
{
	return client->life == client_plan.life && client_plan.is_up && !client_plan.disconnects &&
	       client->disconnected == client_plan.disconnected && !client_plan.fails_allowed &&
	       !client->taken && !client->other;
}

/* Takes the answers to all that it has sent before, which a server has to carry out, also if the
 * client can send no more. */
static int
client_await_answers(struct client *client)
{
	uint8_t byte;
	int r = 0;

	while (r == 0 && client->in_flight)
		r = client_receive_answer(client);
	if (r < 0 && client->in_flight && client_must_be_answered(client))
		trace_fail("%s gets no answer to what it sent before its disconnect request",
			   client->name);
	if (r == 0 && client_receive(client, &byte, 1) == 0)
		trace_fail("%s gets an answer to a disconnect request", client->name);
	return -EPIPE;
}

/* It takes no answers. Nobody else changes the image, so the server owes it all changes. Returns
 * whether it has left so. */
static bool
client_leave_alone(struct client *client)
{
	bool owed;

	/* What it has not read would make it a reset. */
	if (network_has_orphans() || network_is_readable(client->socket))
		return false;
	trace("says goodbye, and takes none of %u answers", client->in_flight);
	owed = network_await_end(client->socket, scheduler_now() + ANSWER_LIMIT) &&
	       client_must_be_answered(client);
	for (unsigned int i = 0; i < WINDOW && owed; i++) {
		struct sent *sent = &client->sent[i];

		if (!sent->write || client_is_reader(client))
			continue;
		trace("%s %u+%u must be done", request_names[sent->type], sent->first, sent->count);
		model_write_answered(sent->write, MODEL_DONE);
		sent_free(sent);
		client->in_flight--;
	}
	return true;
}

/* Says that it leaves, and then, mostly, waits for the rest of the answers. */
static int
client_say_goodbye(struct client *client)
{
	uint8_t bytes[NBD_EXTENDED_REQUEST_SIZE];
	const struct sent last = {.type = NBD_CMD_DISC};
	const size_t size = client_encode(client, &last, 0, bytes);
	int r;

	/* Just when something else happens, such as the end of what the disk does; or while the
	 * server does something about it. */
	if (disk_mood.unstuck_at > scheduler_now() && !chance_once_in(4))
		scheduler_sleep(disk_mood.unstuck_at - scheduler_now());
	else if (chance_once_in(2))
		scheduler_sleep_to_next();
	if (chance_once_in(2))
		scheduler_sleep_to_turn(scheduler_now() + SECOND);
	r = network_send(client->socket, bytes, size);
	if (r < 0 || (client_plan.alone && chance_once_in(2) && client_leave_alone(client)) ||
	    chance_once_in(4))
		return -EPIPE;
	trace("says goodbye, and waits for %u answers", client->in_flight);
	client->leaves = true;
	if (chance_once_in(2))
		network_send_end(client->socket);
	return client_await_answers(client);
}

/* One that waits for long may leave with all its requests unanswered. */
static int
client_await_answer(struct client *client)
{
	if (client_plan.leaves && !network_await(client->socket, scheduler_now() + LONG_WAIT) &&
	    event_strikes(16, "says goodbye"))
		return client_say_goodbye(client);
	return client_receive_answer(client);
}

/* ---- the fiber */

static int
client_step(struct client *client)
{
	if (event_strikes(client_plan.leaves, "leaves"))
		return -EPIPE;
	if (event_strikes(client_plan.leaves, "says goodbye"))
		return client_say_goodbye(client);
	if (client_plan.pause && !stopping && !client->repeat_count && chance_once_in(2))
		scheduler_sleep((int64_t)chance_below((uint64_t)client_plan.pause));
	if (client->in_flight < client_plan.window && !stopping &&
	    (!client->in_flight || chance_once_in(2)))
		return client_send(client);
	if (client->in_flight && (stopping || client->in_flight == client_plan.window ||
				  network_is_readable(client->socket)))
		return client_await_answer(client);
	scheduler_sleep((int64_t)chance_below(2000) * MICROSECOND);
	return 0;
}

/* It connects again at once, or some time later. */
static void
client_give_up(struct client *client)
{
	client_hang_up(client);
	if (client_plan.patience && chance_once_in(2))
		scheduler_sleep((int64_t)chance_below(400) * MILLISECOND);
}

static void *
client_run(void *data)
{
	struct client *client = data;

	while (!stopping || client->in_flight) {
		if (!client->socket)
			client_connect(client);
		else if (client_step(client) < 0)
			client_give_up(client);
	}
	if (client->socket)
		client_hang_up(client);
	free(client);
	running--;
	return NULL;
}

void
client_start(unsigned int number)
{
	struct client *client = calloc(1, sizeof(*client));

	client->number = number;
	snprintf(client->name, sizeof(client->name), "client-%u", number);
	stopping = false;
	running++;
	scheduler_start(client->name, NULL, client_run, client);
}

static bool
clients_are_gone(void *data)
{
	(void)data;
	return running == 0;
}

void
clients_stop(void)
{
	stopping = true;
	scheduler_wait("the clients to leave", clients_are_gone, NULL, FOR_EVER);
}
