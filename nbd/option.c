/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/option.h"

#include "nbd/option_reply.h"
#include "nbd/wire.h"

#include <assert.h>
#include <string.h>

/* The part of an option's data that is not parsed yet. */
struct cursor {
	const uint8_t *at;
	size_t left;
};

static bool
cursor_number(struct cursor *cursor, size_t size, uint32_t *number)
{
	if (cursor->left < size)
		return false;
	*number = size == 2 ? wire_load16(cursor->at) : wire_load32(cursor->at);
	cursor->at += size;
	cursor->left -= size;
	return true;
}

struct string {
	const char *text; /* in h->payload */
	uint32_t length;
};

/* Parses a string and the 32-bit length in front of it. */
static bool
cursor_string(struct cursor *cursor, struct string *string)
{
	if (!cursor_number(cursor, 4, &string->length) || string->length > cursor->left ||
	    string->length > NBD_STRING_MAX)
		return false;
	string->text = (const char *)cursor->at;
	cursor->at += string->length;
	cursor->left -= string->length;
	return true;
}

/* Sends an error reply; to NBD_OPT_EXPORT_NAME, which knows no error reply, ends the handshake. */
static void
refuse_option(struct nbd_handshake *h, struct nbd_output *output, uint32_t type, const char *text)
{
	if (h->option == NBD_OPT_EXPORT_NAME)
		nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE, text);
	else
		nbd_reply_refusal(output, h->option, type, text);
}

static void
option_refuse_in_clear(struct nbd_handshake *h, struct nbd_output *output)
{
	h->needs_tls = true;
	refuse_option(h, output, NBD_REP_ERR_TLS_REQD, "TLS is required here");
}

static void
refuse_invalid(struct nbd_handshake *h, struct nbd_output *output)
{
	refuse_option(h, output, NBD_REP_ERR_INVALID, "malformed option");
}

/* Finds an export, or refuses the option. */
static const struct nbd_export *
option_find_export(struct nbd_handshake *h, struct nbd_output *output, const struct string *name)
{
	struct nbd_refusal refusal = {NBD_REP_ERR_UNKNOWN, "there is no export of that name",
				      false};
	const struct nbd_export *export;

	/* Code that stops at the NUL and code that uses the length would see two different names.
	 */
	if (memchr(name->text, '\0', name->length)) {
		refuse_option(h, output, NBD_REP_ERR_INVALID, "the export name holds a NUL");
		return NULL;
	}
	export = h->config.exports->find(h->config.data, name->text, name->length, &refusal);
	if (!export && refusal.later)
		h->at = NBD_AT_ANSWER;
	else if (!export)
		refuse_option(h, output, refusal.type, refusal.message);
	return export;
}

static uint16_t
flags_for(const struct nbd_handshake *h, const struct nbd_export *export)
{
	bool read_only = h->config.exports->read_only &&
			 h->config.exports->read_only(h->config.data, export);

	return nbd_export_flags(export, read_only, h->session.form != NBD_FORM_SIMPLE);
}

/* The only place that joins an export. The output still has room for the replies to the option
 * after this. */
static bool
option_join(struct nbd_handshake *h, struct nbd_output *output, const struct nbd_export *export,
	    const struct string *name)
{
	const char *message = "the export cannot be used now";
	uint32_t error = h->config.exports->join
				 ? h->config.exports->join(h->config.data, export, &message)
				 : 0;
	struct nbd_session *session = &h->session;

	if (error) {
		refuse_option(h, output, error, message);
		return false;
	}
	session->export = export;
	session->size = export->size;
	session->min_block = export->min_block;
	session->max_payload = export->max_payload;
	session->flags = flags_for(h, export);
	if (h->context_length == name->length &&
	    memcmp(h->context_name, name->text, name->length) == 0) {
		session->allocation = h->context;
		session->bitmap_count = h->bitmap_count;
		memcpy(session->bitmaps, h->bitmaps, sizeof(h->bitmaps));
	}
	nbd_handshake_end(h, NBD_HANDSHAKE_TRANSMISSION, NULL);
	return true;
}

static void
answer_export_name(struct nbd_handshake *h, struct nbd_output *output)
{
	const struct string name = {(const char *)h->payload, h->length};
	const struct nbd_export *export;

	if (name.length > NBD_STRING_MAX) {
		refuse_option(h, output, NBD_REP_ERR_TOO_BIG, "the export name is too long");
		return;
	}
	if (h->session.form == NBD_FORM_EXTENDED) {
		refuse_option(h, output, NBD_REP_ERR_INVALID,
			      "NBD_OPT_EXPORT_NAME can't follow extended headers");
		return;
	}
	export = option_find_export(h, output, &name);
	if (export && option_join(h, output, export, &name))
		nbd_reply_export(output, h->session.size, h->session.flags, !h->no_zeroes);
}

static void
answer_abort(struct nbd_handshake *h, struct nbd_output *output)
{
	nbd_reply_ack(output, h->option);
	nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE, NULL);
}

static void
answer_list(struct nbd_handshake *h, struct nbd_output *output)
{
	if (!h->config.exports->list) {
		refuse_option(h, output, NBD_REP_ERR_POLICY, "exports are not listed here");
		return;
	}
	h->listed = 0;
	h->at = NBD_AT_LIST;
}

void
nbd_option_list(struct nbd_handshake *h, struct nbd_output *output)
{
	while (nbd_output_has_room(output)) {
		const struct nbd_export *export =
			h->config.exports->list(h->config.data, h->listed);

		if (!export) {
			nbd_reply_ack(output, h->option);
			h->at = NBD_AT_OPTION;
			return;
		}
		nbd_reply_server(output, h->option, export);
		h->listed++;
	}
}

static void
answer_starttls(struct nbd_handshake *h, struct nbd_output *output)
{
	if (h->secure) {
		refuse_option(h, output, NBD_REP_ERR_INVALID, "TLS is on already");
	} else if (h->config.tls == NBD_TLS_OFF) {
		refuse_option(h, output, NBD_REP_ERR_UNSUP, "there is no TLS here");
	} else {
		nbd_reply_ack(output, h->option);
		h->at = NBD_AT_TLS;
	}
}

/* Parses the list of information requests into a set of the known ones; others are ignored, as the
 * specification demands. */
static bool
cursor_infos(struct cursor *cursor, unsigned int *infos)
{
	uint32_t count, type;

	if (!cursor_number(cursor, 2, &count) || cursor->left != 2 * (size_t)count)
		return false;
	*infos = 0;
	while (cursor_number(cursor, 2, &type))
		if (type <= NBD_INFO_BLOCK_SIZE)
			*infos |= 1u << type;
	return true;
}

static void
answer_info_or_go(struct nbd_handshake *h, struct nbd_output *output)
{
	struct cursor cursor = {h->payload, h->length};
	const struct nbd_export *export;
	struct string name;
	unsigned int infos;

	if (!cursor_string(&cursor, &name) || !cursor_infos(&cursor, &infos)) {
		refuse_invalid(h, output);
		return;
	}
	export = option_find_export(h, output, &name);
	if (!export || (h->option == NBD_OPT_GO && !option_join(h, output, export, &name)))
		return;
	nbd_reply_info_export(output, h->option, export->size, flags_for(h, export));
	if (infos & 1u << NBD_INFO_NAME)
		nbd_reply_info_text(output, h->option, NBD_INFO_NAME, export->name);
	if (infos & 1u << NBD_INFO_DESCRIPTION && export->description)
		nbd_reply_info_text(output, h->option, NBD_INFO_DESCRIPTION, export->description);
	if (infos & 1u << NBD_INFO_BLOCK_SIZE)
		nbd_reply_info_block_size(output, h->option, export);
	nbd_reply_ack(output, h->option);
}

/* A second request for structured replies changes nothing, and is no error. */
static void
answer_structured_reply(struct nbd_handshake *h, struct nbd_output *output)
{
	if (h->session.form == NBD_FORM_EXTENDED) {
		refuse_option(h, output, NBD_REP_ERR_EXT_HEADER_REQD,
			      "extended headers are on already");
		return;
	}
	h->session.form = NBD_FORM_STRUCTURED;
	nbd_reply_ack(output, h->option);
}

static void
answer_extended_headers(struct nbd_handshake *h, struct nbd_output *output)
{
	h->session.form = NBD_FORM_EXTENDED;
	nbd_reply_ack(output, h->option);
}

/* Returns whether these are well-formed queries, and nothing after them. */
static bool
are_queries(struct cursor queries)
{
	struct string query;
	uint32_t count;

	if (!cursor_number(&queries, 4, &count))
		return false;
	while (count-- > 0)
		if (!cursor_string(&queries, &query))
			return false;
	return !queries.left;
}

/* Returns whether a query asks for this context. In a list, a query that ends with a colon asks for
 * all contexts whose names begin with it, and no query at all asks for every context. */
static bool
is_asked_for(struct cursor queries, const char *name, bool listing)
{
	struct string query;
	uint32_t count = 0;

	cursor_number(&queries, 4, &count);
	if (listing && !count)
		return true;
	while (count-- > 0 && cursor_string(&queries, &query))
		if ((query.length == strlen(name) && memcmp(query.text, name, query.length) == 0) ||
		    (listing && query.length > 0 && query.text[query.length - 1] == ':' &&
		     query.length < strlen(name) && memcmp(query.text, name, query.length) == 0))
			return true;
	return false;
}

/* Replies with the dirty bitmaps that the client asks for, and selects them if it doesn't list. */
static void
answer_bitmaps(struct nbd_handshake *h, struct nbd_output *output, const struct nbd_export *export,
	       const struct cursor *queries, bool listing)
{
	char name[sizeof(NBD_DIRTY_BITMAP) + NBD_BITMAP_NAME_MAX] = NBD_DIRTY_BITMAP;
	char *place = name + strlen(NBD_DIRTY_BITMAP);

	if (!h->config.exports->bitmap)
		return;
	for (size_t n = 0; n < NBD_BITMAPS_MAX; n++) {
		uint32_t id = h->config.exports->bitmap(h->config.data, export, n, place);

		if (!id)
			return;
		if (!is_asked_for(*queries, name, listing))
			continue;
		nbd_reply_context(output, h->option, listing ? 0 : id, name);
		if (!listing)
			h->bitmaps[h->bitmap_count++] = id;
	}
}

/* Why a bitmap that the client asks for can't be selected, or NULL. */
static const char *
find_bitmap_problem(const struct nbd_handshake *h, const struct nbd_export *export,
		    struct cursor queries)
{
	const size_t prefix = strlen(NBD_DIRTY_BITMAP);
	const char *problem = NULL;
	struct string query;
	uint32_t count = 0;

	cursor_number(&queries, 4, &count);
	while (h->config.exports->bitmap_problem && !problem && count-- > 0 &&
	       cursor_string(&queries, &query)) {
		if (query.length > prefix && memcmp(query.text, NBD_DIRTY_BITMAP, prefix) == 0)
			problem = h->config.exports->bitmap_problem(
				h->config.data, export, query.text + prefix, query.length - prefix);
	}
	return problem;
}

static void
answer_meta_context(struct nbd_handshake *h, struct nbd_output *output)
{
	bool listing = h->option == NBD_OPT_LIST_META_CONTEXT;
	struct cursor cursor = {h->payload, h->length};
	const struct nbd_export *export;
	const char *problem;
	struct string name;

	if (!listing && h->session.form == NBD_FORM_SIMPLE) {
		refuse_option(h, output, NBD_REP_ERR_INVALID,
			      "structured replies must be agreed on first");
		return;
	}
	if (!cursor_string(&cursor, &name) || !are_queries(cursor)) {
		refuse_invalid(h, output);
		return;
	}
	export = option_find_export(h, output, &name);
	if (!export)
		return;
	problem = listing ? NULL : find_bitmap_problem(h, export, cursor);
	if (problem) {
		refuse_option(h, output, NBD_REP_ERR_INVALID, problem);
		return;
	}
	if (export->allocation && is_asked_for(cursor, NBD_BASE_ALLOCATION, listing)) {
		nbd_reply_context(output, h->option, listing ? 0 : NBD_ALLOCATION_ID,
				  NBD_BASE_ALLOCATION);
		h->context = h->context || !listing;
	}
	answer_bitmaps(h, output, export, &cursor, listing);
	nbd_reply_ack(output, h->option);
	if (!listing) {
		h->context_length = (uint16_t)name.length;
		memcpy(h->context_name, name.text, name.length);
	}
}

/* An option without .data must have none, except that ABORT's data are ignored. */
static const struct option {
	uint32_t option;
	bool data;
	void (*answer)(struct nbd_handshake *h, struct nbd_output *output);
} options[] = {
	{NBD_OPT_EXPORT_NAME, true, answer_export_name},
	{NBD_OPT_ABORT, false, answer_abort},
	{NBD_OPT_LIST, false, answer_list},
	{NBD_OPT_STARTTLS, false, answer_starttls},
	{NBD_OPT_INFO, true, answer_info_or_go},
	{NBD_OPT_GO, true, answer_info_or_go},
	{NBD_OPT_STRUCTURED_REPLY, false, answer_structured_reply},
	{NBD_OPT_LIST_META_CONTEXT, true, answer_meta_context},
	{NBD_OPT_SET_META_CONTEXT, true, answer_meta_context},
	{NBD_OPT_EXTENDED_HEADERS, false, answer_extended_headers},
};

static const struct option *
find_option(uint32_t number)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].option == number)
			return &options[i];
	return NULL;
}

bool
nbd_option_has_data(uint32_t number)
{
	const struct option *option = find_option(number);

	return option && option->data;
}

void
nbd_option_answer(struct nbd_handshake *h, struct nbd_output *output)
{
	const struct option *option = find_option(h->option);

	/* Even a refused SET_META_CONTEXT cancels the selection that was made before. */
	if (h->option == NBD_OPT_SET_META_CONTEXT) {
		h->context = false;
		h->bitmap_count = 0;
	}

	if (h->option == NBD_OPT_ABORT)
		answer_abort(h, output);
	else if (h->config.refusal)
		refuse_option(h, output, h->config.refusal->type, h->config.refusal->message);
	else if (h->config.tls == NBD_TLS_REQUIRED && !h->secure && h->option != NBD_OPT_STARTTLS)
		option_refuse_in_clear(h, output);
	else if (!option)
		refuse_option(h, output, NBD_REP_ERR_UNSUP, "unknown option");
	else if (!option->data && h->length)
		refuse_option(h, output, NBD_REP_ERR_INVALID, "this option has no data");
	else if (h->length > NBD_OPTION_MAX)
		refuse_option(h, output, NBD_REP_ERR_TOO_BIG, "the option is too long");
	else
		option->answer(h, output);
}
