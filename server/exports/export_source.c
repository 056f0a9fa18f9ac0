/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/export_source.h"

#include "server/access/access.h"
#include "server/exports/clones.h"
#include "server/exports/export_clients.h"
#include "server/exports/exports.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* `what`: the export, as text. */
static void
applicant_log_refusal(struct applicant *applicant, const char *what)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20, 60);
	unsigned int suppressed;
	char more[LOG_LEFT_OUT];

	applicant->was_refused = true;
	if (applicant->refused && strcmp(applicant->refused, what) == 0)
		return;
	free(applicant->refused);
	applicant->refused = strdup(what);
	if (log_limit_pass(&limit, &suppressed))
		log_warning("%s: refused: no rule lets this client use %s%s",
			    applicant->identity->text, what, log_left_out(suppressed, more));
}

static bool
applicant_may_use(const struct applicant *applicant, const struct offer *offer)
{
	return access_right(offer->access, applicant->identity) != ACCESS_NONE;
}

/* mutex held. The n-th export that the client may use, from 0; or NULL. */
static struct offer *
applicant_nth(const struct applicant *applicant, size_t n)
{
	struct offer *offer = applicant->exports->listed;

	while (offer && (offer->export->owner || !applicant_may_use(applicant, offer) || n-- > 0))
		offer = offer->next;
	return offer;
}

/* mutex held. The only export that the client may use and that is no snapshot, or NULL. */
static struct offer *
applicant_only(const struct applicant *applicant)
{
	struct offer *only = NULL;

	for (struct offer *offer = applicant->exports->listed; offer; offer = offer->next) {
		if (offer->export->origin || !applicant_may_use(applicant, offer))
			continue;
		if (only)
			return NULL;
		only = offer;
	}
	return only;
}

/* mutex held. The offer of that name, or NULL; then *refused is the one that the client may not
 * use, or NULL. */
static struct offer *
applicant_pick(const struct applicant *applicant, const char *name, size_t length,
	       const struct offer **refused)
{
	struct offer **at = exports_find(applicant->exports, name, length);
	struct offer *only = applicant_only(applicant);

	/* Clones are found by their origins. */
	if (at && (*at)->export->owner)
		at = NULL;
	if (at && applicant_may_use(applicant, *at))
		return *at;
	/* An only export is the default export, whatever its name is: the only one that the client
	 * may use. But it does not replace one without a name, whose client would get other data.
	 */
	if (length == 0 && !at && only)
		return only;
	if (length == 0 && !at)
		at = exports_only(applicant->exports);
	*refused = at ? *at : NULL;
	return NULL;
}

/* mutex held. Returns whether somebody has to look at the image first. Once is enough for INFO and
 * GO, or META_CONTEXT and GO, of one export: they shall not differ. */
static bool
applicant_must_wait(struct applicant *applicant, struct export *export)
{
	applicant->owner = NULL;
	if (!applicant->exports->looks || applicant->looked_at == export || export->origin ||
	    !image_is_looked_at(export->image))
		return false;
	applicant->wanted = export;
	return true;
}

/* mutex held. The client's clone of an export that has clones, else the offer; or NULL with the
 * refusal: it has none yet, or can't have one. */
static const struct offer *
applicant_find_clone(struct applicant *applicant, const struct offer *offer,
		     struct nbd_refusal *refusal)
{
	struct export *export = offer->export;
	const char *owner = clones_owner(applicant, export);
	const struct offer *clone;

	if (!owner && export->config->clone == CLONE_OFF) {
		refusal->later = applicant_must_wait(applicant, export);
		return refusal->later ? NULL : offer;
	}
	clone = owner ? clones_find(applicant->exports, export, owner) : NULL;
	if (clone)
		return clone;
	if (!owner || !applicant->exports->looks || applicant->looked_at == export) {
		*refusal = (struct nbd_refusal){
			NBD_REP_ERR_POLICY,
			"there is no clone for you; the log of the server says why", false};
		return NULL;
	}
	applicant->wanted = export;
	applicant->owner = owner;
	refusal->later = true;
	return NULL;
}

/*
 * A client that may use some exports is told of the others what it is told of names that do not
 * exist: it must not learn which exist. One that may use none is told so, whatever it asks for.
 */
static const struct nbd_export *
applicant_find(void *data, const char *name, size_t length, struct nbd_refusal *refusal)
{
	struct applicant *applicant = data;
	struct exports *exports = applicant->exports;
	const struct offer *offer, *refused = NULL;
	char *CLEANUP_FREE what = NULL;
	bool picked;

	applicant->was_refused = false;
	/* It is another one after TLS has begun. */
	free(applicant->rule);
	applicant->rule = identity_rule(applicant->identity);
	pthread_mutex_lock(&exports->mutex);
	offer = applicant_pick(applicant, name, length, &refused);
	picked = offer != NULL;
	if (offer)
		offer = applicant_find_clone(applicant, offer, refusal);
	if (refused && asprintf(&what, "the export \"%s\"", refused->facts.name) < 0)
		what = NULL;
	if (!picked && exports->listed && !applicant_nth(applicant, 0)) {
		*refusal = (struct nbd_refusal){NBD_REP_ERR_POLICY,
						"the rules of this server let you use no export",
						false};
		if (!what)
			what = strdup("any export");
	}
	pthread_mutex_unlock(&exports->mutex);
	if (what)
		applicant_log_refusal(applicant, what);
	return offer ? &offer->facts : NULL;
}

static const struct nbd_export *
applicant_list(void *data, size_t n)
{
	const struct applicant *applicant = data;
	const struct offer *offer;

	pthread_mutex_lock(&applicant->exports->mutex);
	offer = applicant_nth(applicant, n);
	pthread_mutex_unlock(&applicant->exports->mutex);
	return offer ? &offer->facts : NULL;
}

_Static_assert(CHECKPOINTS_MAX <= NBD_BITMAPS_MAX && CHECKPOINT_NAME_MAX <= NBD_BITMAP_NAME_MAX,
	       "clients would not see all checkpoints");

static uint32_t
applicant_bitmap(void *data, const struct nbd_export *facts, size_t n,
		 char name[NBD_BITMAP_NAME_MAX + 1])
{
	struct checkpoint_facts checkpoint;

	(void)data;
	if (!checkpoints_at(offer_of(facts)->export->checkpoints, n, &checkpoint) ||
	    checkpoint.unknown)
		return 0;
	memcpy(name, checkpoint.name, strlen(checkpoint.name) + 1);
	return checkpoint.id;
}

static const char *
applicant_bitmap_problem(void *data, const struct nbd_export *facts, const char *name,
			 size_t length)
{
	static const char unknown[] = "what has changed since this checkpoint is unknown: take a "
				      "full backup";
	struct checkpoints *set = offer_of(facts)->export->checkpoints;
	struct checkpoint_facts checkpoint;
	char reason[REASON_MAX];
	size_t n = 0;

	(void)data;
	if (!checkpoints_problem(set, reason))
		return NULL;
	for (; checkpoints_at(set, n, &checkpoint); n++) {
		if (strlen(checkpoint.name) == length && memcmp(checkpoint.name, name, length) == 0)
			return unknown;
	}
	/* Without any, the record can't be read, and may have had one of this name. */
	return n == 0 ? unknown : NULL;
}

static bool
applicant_read_only(void *data, const struct nbd_export *facts)
{
	const struct applicant *applicant = data;

	return access_right(offer_of(facts)->access, applicant->identity) == ACCESS_READ;
}

static void
applicant_log_full(const struct applicant *applicant, const char *export, bool client)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20, 60);
	unsigned int suppressed;
	char more[LOG_LEFT_OUT];

	if (log_limit_pass(&limit, &suppressed))
		log_warning("%s: refused: %s \"%s\" %s%s", applicant->identity->text,
			    client ? "a client has as many connections to the export"
				   : "the export",
			    export,
			    client ? "as it may have (client-connections-limit)"
				   : "has as many connections as it may have (connections-limit)",
			    log_left_out(suppressed, more));
}

/* mutex held. 0, or as export_join(); -ENFILE: the export is full; -ENOENT: it is not there. */
static int
applicant_take_place(struct applicant *applicant, const struct offer *wanted, const char *rule)
{
	struct offer *offer = applicant->exports->listed;
	int r;

	while (offer && offer != wanted)
		offer = offer->next;
	if (!offer)
		return -ENOENT;
	if (export_is_full(offer->export))
		return -ENFILE;
	r = export_join(offer->export, rule, &applicant->client);
	if (r < 0)
		return r;
	offer->export->connections++;
	if (offer->export->owner)
		offer->export->expires = 0;
	atomic_fetch_add_explicit(&offer->connections, 1, memory_order_relaxed);
	return 0;
}

static uint32_t
applicant_join(void *data, const struct nbd_export *facts, const char **message)
{
	struct applicant *applicant = data;
	struct exports *exports = applicant->exports;
	struct offer *wanted = offer_of(facts);
	char *CLEANUP_FREE rule = identity_rule(applicant->identity);
	int r;

	if (image_is_fenced(wanted->export->image)) {
		*message = "another server has this image now";
		return NBD_REP_ERR_SHUTDOWN;
	}
	pthread_mutex_lock(&exports->mutex);
	r = rule ? applicant_take_place(applicant, wanted, rule) : -ENOMEM;
	pthread_mutex_unlock(&exports->mutex);
	if (r == 0)
		return 0;
	if (r == -ENFILE || r == -EUSERS) {
		applicant_log_full(applicant, wanted->facts.name, r == -EUSERS);
		*message = r == -EUSERS ? "you have as many connections to the export as a client "
					  "may have (client-connections-limit)"
					: "the export has as many connections as it may have "
					  "(connections-limit)";
		return NBD_REP_ERR_POLICY;
	}
	if (r == -ENOMEM)
		log_warning("export \"%s\": no memory for a client that wants to use it",
			    facts->name);
	*message = r == -ENOMEM ? "the server has no memory for you now; try again"
				: "the export was removed or changed just now; try again";
	return NBD_REP_ERR_UNKNOWN;
}

const struct nbd_export_source exports_listed = {
	.find = applicant_find,
	.list = applicant_list,
	.bitmap = applicant_bitmap,
	.bitmap_problem = applicant_bitmap_problem,
	.read_only = applicant_read_only,
	.join = applicant_join,
};

const struct nbd_export_source exports_unlisted = {
	.find = applicant_find,
	.bitmap = applicant_bitmap,
	.bitmap_problem = applicant_bitmap_problem,
	.read_only = applicant_read_only,
	.join = applicant_join,
};
