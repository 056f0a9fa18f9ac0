/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/server_status.h"

#include "server/config/command_line.h"
#include "server/exports/export_changes.h"
#include "server/exports/exports.h"
#include "server/serve/conn_state.h"
#include "server/serve/worker.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "control/answer.h"
#include "engine/image/image_json.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- threads and their connections, which only they may look at */

struct conn_fact {
	uint64_t id;
	char peer[sizeof(((struct conn *)NULL)->peer)];
	char *export; /* NULL: it has not chosen yet */
	unsigned int requests;
	uint64_t read_bytes, write_bytes;
};

/* What one thread tells. */
struct survey_part {
	struct worker_message message;
	struct survey *survey;
	struct spin spin;
	struct conn_fact *facts;
	size_t count;
};

struct survey {
	pthread_mutex_t mutex;
	pthread_cond_t told;
	unsigned int pending; /* threads that have not told yet */
	unsigned int count;
	struct survey_part parts[];
};

static void
look(const struct conn *conn, struct conn_fact *fact)
{
	fact->id = conn->id;
	memcpy(fact->peer, conn->peer, sizeof(fact->peer));
	fact->export = conn->served ? strdup(conn->served->facts.name) : NULL;
	fact->requests = conn->requests;
	fact->read_bytes = conn->read_bytes;
	fact->write_bytes = conn->write_bytes;
}

/* On the worker's thread. */
static void
tell(struct worker *worker, struct worker_message *message)
{
	struct survey_part *part = message->data;
	struct survey *survey = part->survey;
	size_t count = 0;

	for (const struct conn *conn = worker->conns; conn; conn = conn->next)
		count++;
	part->spin = worker->spin;
	part->facts = calloc(count, sizeof(*part->facts));
	for (const struct conn *conn = worker->conns; part->facts && conn; conn = conn->next)
		look(conn, &part->facts[part->count++]);
	pthread_mutex_lock(&survey->mutex);
	survey->pending--;
	pthread_cond_signal(&survey->told);
	pthread_mutex_unlock(&survey->mutex);
}

/* Asks all threads. NULL: out of memory. */
static struct survey *
survey_new(const struct status *status)
{
	struct survey *survey =
		calloc(1, sizeof(*survey) + status->worker_count * sizeof(survey->parts[0]));

	if (!survey)
		return NULL;
	pthread_mutex_init(&survey->mutex, NULL);
	pthread_cond_init(&survey->told, NULL);
	survey->count = survey->pending = status->worker_count;
	for (unsigned int i = 0; i < survey->count; i++) {
		struct survey_part *part = &survey->parts[i];

		part->survey = survey;
		part->message = (struct worker_message){.deliver = tell, .data = part};
		worker_post(&status->workers[i], &part->message);
	}
	pthread_mutex_lock(&survey->mutex);
	while (survey->pending > 0)
		pthread_cond_wait(&survey->told, &survey->mutex);
	pthread_mutex_unlock(&survey->mutex);
	return survey;
}

static void
survey_free(struct survey *survey)
{
	for (unsigned int i = 0; survey && i < survey->count; i++) {
		struct survey_part *part = &survey->parts[i];

		for (size_t j = 0; j < part->count; j++)
			free(part->facts[j].export);
		free(part->facts);
	}
	if (!survey)
		return;
	pthread_cond_destroy(&survey->told);
	pthread_mutex_destroy(&survey->mutex);
	free(survey);
}

static void
write_loops(struct json *json, const struct survey *survey)
{
	json_array_begin(json, "loops");
	for (unsigned int i = 0; survey && i < survey->count; i++) {
		const struct spin *spin = &survey->parts[i].spin;

		json_object_begin(json, NULL);
		json_uint(json, "poll_us", spin->window / 1000);
		json_uint(json, "polls", spin->found);
		json_uint(json, "sleeps", spin->sleeps);
		json_object_end(json);
	}
	json_array_end(json);
}

static void
write_connections(struct json *json, const struct survey *survey)
{
	json_array_begin(json, "connections");
	for (unsigned int i = 0; survey && i < survey->count; i++) {
		const struct survey_part *part = &survey->parts[i];

		for (size_t j = 0; j < part->count; j++) {
			json_object_begin(json, NULL);
			json_uint(json, "id", part->facts[j].id);
			json_string(json, "client", part->facts[j].peer);
			json_string(json, "export", part->facts[j].export);
			json_uint(json, "thread", i);
			json_uint(json, "requests", part->facts[j].requests);
			json_uint(json, "read_bytes", part->facts[j].read_bytes);
			json_uint(json, "write_bytes", part->facts[j].write_bytes);
			json_object_end(json);
		}
	}
	json_array_end(json);
}

/* ---- the whole */

/* The buckets up to the last one that has something. */
static void
write_latency(struct json *json, enum io_op op, const uint64_t buckets[TRAFFIC_BUCKETS])
{
	unsigned int count = TRAFFIC_BUCKETS;

	while (count > 0 && buckets[count - 1] == 0)
		count--;
	json_array_begin(json, io_op_name(op));
	for (unsigned int i = 0; i < count; i++)
		json_uint(json, NULL, buckets[i]);
	json_array_end(json);
}

static void
write_traffic(struct json *json, const struct export_view *view)
{
	struct traffic_sum sum;

	traffic_sum(view->traffic, view->threads, &sum);
	json_uint(json, "requests", sum.under_way);
	json_object_begin(json, "latency_us");
	for (unsigned int op = 0; op < TRAFFIC_OPS; op++)
		write_latency(json, op, sum.latency[op]);
	json_object_end(json);
}

static void
write_export(void *data, const struct export_view *view)
{
	struct image_status status;
	struct json *json = data;

	image_status(view->image, &status);
	json_object_begin(json, NULL);
	json_string(json, "name", view->name);
	json_string(json, "description", view->description);
	json_uint(json, "connections", view->connections);
	write_traffic(json, view);
	json_image(json, status.path, &status);
	json_object_end(json);
}

static void
write_status(struct json *json, const struct status *status)
{
	const struct server_config *config = status->config;
	struct survey *survey = survey_new(status);

	json_object_begin(json, NULL);
	json_string(json, "program", "nbdloopd");
	json_string(json, "version", PACKAGE_VERSION);
	json_uint(json, "pid", (uint64_t)getpid());
	json_bool(json, "swap", config->swap == TRISTATE_ON);
	json_uint(json, "threads", status->worker_count);
	json_uint(json, "poll_max_us", config->poll_max_us);
	json_uint(json, "max_connections", config->max_connections);
	json_array_begin(json, "exports");
	exports_visit(status->exports, NULL, write_export, json);
	json_array_end(json);
	write_loops(json, survey);
	write_connections(json, survey);
	json_object_end(json);
	survey_free(survey);
}

/* ---- changes */

static void
write_no_export(struct json *json, const char *name)
{
	char *CLEANUP_FREE error = NULL;

	if (!name) {
		answer_error(json, "which export? add export=NAME, with a name that status shows");
		return;
	}
	error_set(&error, -ENOENT, "export=%s: there is no such export; status shows the exports",
		  name);
	answer_error(json, error);
}

/* The new export, or NULL with *error. */
static struct export_config *
parse_addition(const struct status *status, const char *text, char **error)
{
	struct server_config one;
	struct export_config *export;
	int r = config_init(&one);

	if (r < 0)
		return NULL;
	/* As an export of the command line, it has the server's defaults where it doesn't say
	 * otherwise. */
	r = config_take_defaults(&one, status->config);
	if (r == 0)
		r = command_line_add_export(&one, text, error);
	if (r == 0)
		r = config_check(&one, error);
	export = r < 0 ? NULL : steal_pointer(&one.exports);
	config_fini(&one);
	return export;
}

static int
add(const struct status *status, const char *text, char **name, char **error)
{
	struct export_config *export = parse_addition(status, text, error);

	if (!export)
		return -EINVAL;
	*name = strdup(export->name);
	if (!*name)
		return -ENOMEM; /* and the export is lost, as much else will be */
	return exports_add(status->exports, export, error);
}

static void
change(const struct status *status, const struct control_request *request, struct json *json)
{
	char *CLEANUP_FREE error = NULL;
	char *CLEANUP_FREE added = NULL;
	const char *name = request->export_name;
	int r;

	if (request->verb == CONTROL_ADD) {
		r = add(status, request->addition, &added, &error);
		name = added;
	} else if (request->verb == CONTROL_SET) {
		r = exports_set_direct(status->exports, name, request->direct_io, &error);
	} else {
		r = exports_resize(status->exports, name, &error);
	}
	if (r == -ENOENT && !error)
		write_no_export(json, name);
	else if (r < 0)
		answer_error(json, error);
	else if (exports_visit(status->exports, name, write_export, json) == 0)
		write_no_export(json, name); /* somebody has just removed it */
}

static void
remove_export(const struct status *status, const char *name, struct json *json)
{
	if (exports_remove(status->exports, name) < 0) {
		write_no_export(json, name);
		return;
	}
	json_object_begin(json, NULL);
	json_string(json, "removed", name);
	json_object_end(json);
}

void
status_handle(const struct control_request *request, FILE *out, void *data)
{
	const struct status *status = data;
	struct json json;

	json_init(&json, out);
	if (request->verb == CONTROL_STATUS)
		write_status(&json, status);
	else if (request->verb == CONTROL_REMOVE)
		remove_export(status, request->export_name, &json);
	else
		change(status, request, &json);
}
