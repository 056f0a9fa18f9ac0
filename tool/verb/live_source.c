/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/live_source.h"

#include "tool/backup/export_end.h"
#include "tool/backup/interruption.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/server_link.h"

#include "common/cleanup.h"
#include "common/container_of.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX     "backup-"
#define PREFIX_TAG 12    /* digits for the target */
#define EXPIRE     86400 /* seconds: a snapshot that a killed backup leaves ends by itself */
#define HOST_MAX   256

/* ---- names */

/* A path that is the same from every directory, whether or not the file is there, and for a
 * directory with or without a slash. */
static char *
live_real_path(const char *path)
{
	g_autofree char *text = g_strdup(path);
	char *CLEANUP_FREE whole = realpath(path, NULL);
	char *CLEANUP_FREE real = NULL;
	g_autofree char *directory = NULL, *base = NULL;

	for (size_t length = strlen(text); length > 1 && text[length - 1] == '/'; length--)
		text[length - 1] = '\0';
	directory = g_path_get_dirname(text);
	base = g_path_get_basename(text);
	real = realpath(directory, NULL);
	return whole ? g_strdup(whole) : g_build_filename(real ? real : directory, base, NULL);
}

/* Two machines may have targets of the same path. */
static char *
prefix_for(const char *target)
{
	char host[HOST_MAX] = "";
	g_autofree char *path = live_real_path(target);
	g_autofree char *text = NULL, *digest = NULL;

	gethostname(host, sizeof(host) - 1);
	text = g_strconcat(host, ":", path, NULL);
	digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
	return g_strdup_printf(PREFIX "%.*s-", PREFIX_TAG, digest);
}

static char *
name_with(const char *prefix)
{
	uint64_t number;

	if (getentropy(&number, sizeof(number)) != 0)
		number = (uint64_t)g_random_int() << 32 | g_random_int();
	return g_strdup_printf("%s%016" G_GINT64_MODIFIER "x", prefix, number);
}

/* ---- the server's exports */

static json_t *
live_find_export(json_t *status, const char *name)
{
	json_t *export;
	size_t i;

	if (!name)
		return server_link_export(status);
	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		if (!json_object_get(export, "snapshot") &&
		    g_strcmp0(json_string_value(json_object_get(export, "name")), name) == 0)
			return export;
	}
	return NULL;
}

static bool
find_origin(struct live_source *live, const struct live_source_wish *wish, GError **error)
{
	json_auto_t *status = asked_server_ask(&live->server, "status", error);
	json_t *export = live_find_export(status, wish->export);

	if (!status)
		return false;
	if (!export && wish->export)
		return failure(error, ENOENT, "%s has no export \"%s\"", wish->source,
			       wish->export);
	if (!export)
		return failure(error, EINVAL,
			       "%s has no export, or several: name one by --export=NAME",
			       wish->source);
	live->origin = g_strdup(json_string_value(json_object_get(export, "name")) ?: "");
	return true;
}

/* "/dev/nbd0", or the path of the control socket with the export's name. */
static char *
text_of(const struct live_source *live)
{
	char *CLEANUP_FREE socket = NULL;

	if (!live->server.socket)
		return g_strconcat("/dev/", live->server.ours.device->name, NULL);
	socket = realpath(live->server.socket, NULL);
	return g_strconcat(socket ? socket : live->server.socket, *live->origin ? ":" : NULL,
			   live->origin, NULL);
}

/* ---- checkpoints that no backup needs */

static void
live_warn(const struct live_source *live, const char *what, const GError *why)
{
	log_warning("%s: %s: %s", live->text, what, why ? why->message : "unknown error");
}

static void
end_checkpoint(struct live_source *live, const char *name)
{
	g_autofree char *request =
		g_strconcat("checkpoint delete ", name, " export=", live->origin, NULL);
	g_autoptr(GError) why = NULL;
	json_auto_t *ended = asked_server_ask(&live->server, request, &why);

	if (!ended)
		live_warn(live, "a checkpoint that no backup needs any more is left", why);
}

/* Ends those of the origin for which `is_over` is true. */
static void
end_checkpoints(struct live_source *live, json_t *status,
		bool (*is_over)(const struct live_source *live, const char *name))
{
	json_t *checkpoint;
	size_t i;

	json_array_foreach(json_object_get(live_find_export(status, live->origin), "checkpoints"),
			   i, checkpoint)
	{
		const char *name = json_string_value(json_object_get(checkpoint, "name"));

		if (name && is_over(live, name))
			end_checkpoint(live, name);
	}
}

/* Whether a backup into this target that was killed has left it, before the target belonged to it:
 * the target's lock says that none is running. */
static bool
is_left(const struct live_source *live, const char *name)
{
	return g_str_has_prefix(name, live->prefix) && g_strcmp0(name, live->moment.has) != 0;
}

/* Whether the checkpoint is one of this target's, which now belongs to another one. A checkpoint
 * that the user has made stays. */
static bool
live_is_older(const struct live_source *live, const char *name)
{
	const char *since = live->moment.since;

	return g_strcmp0(name, live->name) != 0 &&
	       (g_str_has_prefix(name, live->prefix) ||
		(g_str_has_prefix(name, PREFIX) && g_strcmp0(name, since) == 0));
}

/* ---- the moment */

static bool
has_export(json_t *status, const char *name)
{
	json_t *export;
	size_t i;

	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		if (g_strcmp0(json_string_value(json_object_get(export, "name")), name) == 0)
			return true;
	}
	return false;
}

/* True also if it has gone by itself: at its time, or with its server, of which a restarted one is
 * asked again. */
static bool
remove_left_snapshot(struct live_source *live, json_t *export, const char *name, GError **error)
{
	GError *why = NULL;
	json_auto_t *status = NULL;

	if (snapshot_remove(&live->server, export, NULL, &why))
		return true;
	status = asked_server_ask(&live->server, "status", NULL);
	if (!status || has_export(status, name))
		return failure_pass(error, &why);
	g_error_free(why);
	return true;
}

/* What killed backups into this target have left. A server has a limited number of checkpoints.
 * A target that can't belong to a checkpoint has no lock, either: another backup may be running,
 * and what is left ends at its time. */
static bool
remove_left(struct live_source *live, GError **error)
{
	json_auto_t *status = NULL;
	json_t *export;
	size_t i;

	if (!live->locked)
		return true;
	status = asked_server_ask(&live->server, "status", error);
	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		const char *name = json_string_value(json_object_get(export, "name"));

		if (name && json_object_get(export, "snapshot") &&
		    g_str_has_prefix(name, live->prefix) &&
		    !remove_left_snapshot(live, export, name, error))
			return false;
	}
	if (live->moment.checkpoint)
		end_checkpoints(live, status, is_left);
	return status;
}

/* A server that was restarted was asked twice: the first one may have begun a checkpoint, which is
 * in its record, and then the second one refuses. */
static void
undo_make(struct live_source *live)
{
	g_autofree char *removal = g_strconcat("remove export=", live->name, NULL);
	g_autofree char *end =
		g_strconcat("checkpoint delete ", live->name, " export=", live->origin, NULL);
	json_auto_t *removed = asked_server_ask(&live->server, removal, NULL);
	json_auto_t *ended = asked_server_ask(&live->server, end, NULL);

	(void)removed, (void)ended; /* mostly, there is neither */
}

static char *
live_make(struct backup_moment *moment, GError **error)
{
	struct live_source *live = container_of(moment, struct live_source, moment);
	const struct snapshot_request request = {
		.name = live->name,
		.origin = live->origin,
		.checkpoint = moment->checkpoint,
		.local = live->server.socket,
	};
	GError *why = NULL;
	const char *uri;

	if (!interruption_check(error) || !remove_left(live, error))
		return NULL;
	live->made = snapshot_make(&live->server, &live->how, &request, &why);
	if (!live->made) {
		if (failure_is(why, EINVAL))
			undo_make(live);
		g_propagate_error(error, why);
		return NULL;
	}
	uri = json_string_value(json_object_get(live->made, "uri"));
	if (uri)
		return g_strdup(uri);
	return FAILURE_NULL(error, EPROTO, "%s doesn't tell where its snapshot is", live->text);
}

/* ---- what is refused */

/* Whether the server has a connection of the target to the image that is copied, by whatever name
 * and socket. */
static bool
has_connection(const struct live_source *live, json_t *status, const struct end *target)
{
	json_t *origin = live_find_export(status, live->origin), *connection;
	size_t i;

	json_array_foreach(json_object_get(status, "connections"), i, connection)
	{
		const char *client = json_string_value(json_object_get(connection, "client")),
			   *name = json_string_value(json_object_get(connection, "export"));
		json_t *export = name ? live_find_export(status, name) : NULL;

		if (client && export && image_file_is_of_both(origin, export) &&
		    export_end_is_client(target, client))
			return true;
	}
	return false;
}

static bool
may_write(struct backup_moment *moment, const struct end *target, GError **error)
{
	struct live_source *live = container_of(moment, struct live_source, moment);
	json_auto_t *status = asked_server_ask(&live->server, "status", error);

	return status && (!has_connection(live, status, target) ||
			  failure(error, EINVAL, "%s is the source itself", target->name));
}

/* ---- afterwards */

static void
end_older_checkpoints(struct live_source *live)
{
	g_autoptr(GError) why = NULL;
	json_auto_t *status = asked_server_ask(&live->server, "status", &why);

	if (!status)
		live_warn(live, "the checkpoint of the last backup is left", why);
	end_checkpoints(live, status, live_is_older);
}

/* After a backup that has ended well, the checkpoints go that the target belonged to before; else
 * the new one goes, unless the target may belong to it. What can't be removed is a warning. */
static void
live_end(struct backup_moment *moment, bool done)
{
	struct live_source *live = container_of(moment, struct live_source, moment);
	g_autoptr(GError) why = NULL;

	if (!live->made)
		return;
	if (!snapshot_remove(&live->server, live->made, NULL, &why))
		live_warn(live, "the snapshot is left, and ends at its time", why);
	if (moment->checkpoint && done)
		end_older_checkpoints(live);
	else if (moment->checkpoint && !moment->kept)
		end_checkpoint(live, moment->checkpoint);
}

/* ---- its life */

void
live_source_close(struct live_source *live)
{
	asked_server_fini(&live->server);
	g_free(live->text);
	g_free(live->origin);
	g_free(live->prefix);
	g_free(live->name);
	g_free(live->moment.has);
	g_free(live->moment.since);
	json_decref(live->made);
}

bool
live_source_open(struct live_source *live, const struct live_source_wish *wish,
		 const struct snapshot_options *how, GError **error)
{
	*live = (struct live_source){
		.how = *how,
		.moment = {.make = live_make, .may_write = may_write, .end = live_end}};
	if (!live->how.expire)
		live->how.expire = EXPIRE;
	if (!asked_server_find(&live->server, wish->source, error) ||
	    !find_origin(live, wish, error))
		return false;
	live->text = text_of(live);
	live->prefix = prefix_for(wish->target);
	live->name = name_with(live->prefix);
	live->locked = wish->checkpoint;
	if (live->locked)
		live->moment.checkpoint = live->name;
	return true;
}
