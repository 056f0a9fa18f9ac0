/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/server_status.h"

#include "server/access/access.h"
#include "server/config/command_line.h"
#include "server/exports/disconnection.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_image.h"
#include "server/exports/export_limits.h"
#include "server/exports/exports.h"
#include "server/exports/snapshots.h"
#include "server/sandbox/sandbox.h"
#include "server/connection/conn.h"
#include "server/worker/worker.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/unit.h"
#include "control/answer.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image_status.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- threads and their connections, which only the threads themselves may read */

/* The answer of one thread. */
struct survey_part {
	struct spin spin;
	char *connections; /* as values of JSON; NULL: out of memory */
};

struct survey {
	unsigned int count;
	struct survey_part parts[]; /* by the number of the thread */
};

static void
write_rule(void *data, const char *rule)
{
	json_put_string(data, NULL, rule);
}

static void
write_connection(struct json *json, const struct conn *conn, unsigned int thread)
{
	json_object_begin(json, NULL);
	json_put_uint(json, "id", conn->queue.id);
	json_put_string(json, "client", conn->identity->text);
	json_array_begin(json, "identity");
	identity_visit(conn->identity, write_rule, json);
	json_array_end(json);
	json_put_string(json, "tls", conn->security[0] ? conn->security : NULL);
	json_put_string(json, "export", conn->offer ? conn->offer->export->config->name : NULL);
	json_put_bool(json, "read_only", conn->queue.session.flags & NBD_FLAG_READ_ONLY);
	json_put_uint(json, "thread", thread);
	json_put_string(json, "counts_as", conn->client ? conn->client->rule : NULL);
	json_put_bool(json, "limited", conn->throttle.throttled);
	json_put_uint(json, "requests", conn->queue.in_flight);
	json_put_uint(json, "read_bytes", conn->queue.read_bytes);
	json_put_uint(json, "write_bytes", conn->queue.write_bytes);
	json_object_end(json);
}

/* On the worker's thread. */
static void
survey_worker(struct worker *worker, void *data)
{
	struct survey *survey = data;
	struct survey_part *part = &survey->parts[worker->number];
	size_t length;
	FILE *out = open_memstream(&part->connections, &length);
	struct json json;

	part->spin = worker->spin;
	if (!out)
		return;
	json_init(&json, out);
	for (const struct conn *conn = worker->conns; conn; conn = conn->next)
		write_connection(&json, conn, worker->number);
	json_text_close(out, &part->connections, &length);
}

/* Asks all threads, and waits for their answers. NULL: out of memory. */
static struct survey *
survey_new(const struct exports *exports)
{
	struct survey *CLEANUP_FREE survey =
		calloc(1, sizeof(*survey) + exports->worker_count * sizeof(survey->parts[0]));

	if (!survey)
		return NULL;
	survey->count = exports->worker_count;
	if (workers_call(exports->workers, exports->worker_count, survey_worker, survey) < 0)
		return NULL;
	return steal_pointer(&survey);
}

static void
write_loops(struct json *json, const struct survey *survey)
{
	json_array_begin(json, "loops");
	for (unsigned int i = 0; survey && i < survey->count; i++) {
		const struct spin *spin = &survey->parts[i].spin;

		json_object_begin(json, NULL);
		json_put_uint(json, "poll_us", spin->window / 1000);
		json_put_uint(json, "polls", spin->found);
		json_put_uint(json, "sleeps", spin->sleeps);
		json_object_end(json);
	}
	json_array_end(json);
}

/* ---- the status */

/* For exports_visit(): writes the status of an export as an object. */
struct export_writer {
	struct json *json;
	const char *socket; /* for clients of snapshots, or NULL */
};

/* A figure of a traffic's; of a kind of requests, the n-th after the first. */
static void
write_figure(struct json *json, const struct traffic_sum *sum, const struct figure_row *row,
	     unsigned int n)
{
	const uint64_t *first = (const void *)((const char *)sum + row->field);

	json_put_uint(json, row->name, first[n]);
}

static void
write_answered(struct json *json, const struct traffic_sum *sum)
{
	json_object_begin(json, "answered");
	for (unsigned int op = 0; op < TRAFFIC_OPS; op++) {
		json_object_begin(json, traffic_op_name(op));
		for (unsigned int i = 0; i < TRAFFIC_OP_ROWS; i++)
			write_figure(json, sum, &traffic_op_rows[i], op);
		json_object_end(json);
	}
	json_object_end(json);
}

static void
write_traffic(struct json *json, const struct export *export)
{
	struct traffic_sum sum;

	traffic_sum(export->traffic, export->threads, &sum);
	for (unsigned int i = 0; i < TRAFFIC_ROWS; i++)
		write_figure(json, &sum, &traffic_rows[i], 0);
	write_answered(json, &sum);
	json_object_begin(json, "latency_us");
	for (unsigned int op = 0; op < TRAFFIC_OPS; op++) {
		unsigned int count = TRAFFIC_BUCKETS;

		/* Up to the last bucket that is not empty. */
		while (count > 0 && sum.latency[op][count - 1] == 0)
			count--;
		json_array_begin(json, traffic_op_name(op));
		for (unsigned int i = 0; i < count; i++)
			json_put_uint(json, NULL, sum.latency[op][i]);
		json_array_end(json);
	}
	json_object_end(json);
}

static void
write_checkpoints(struct json *json, struct checkpoints *set)
{
	char problem[REASON_MAX] = "";
	struct checkpoint_facts facts;

	checkpoints_problem(set, problem);
	json_put_string(json, "changes", checkpoints_file(set));
	json_put_string(json, "changes_problem", problem);
	json_array_begin(json, "checkpoints");
	for (size_t n = 0; checkpoints_at(set, n, &facts); n++) {
		json_object_begin(json, NULL);
		json_put_string(json, "name", facts.name);
		json_put_uint(json, "begun", (uint64_t)facts.begun);
		json_put_uint(json, "granularity", facts.granule);
		json_put_bool(json, "unknown", facts.unknown);
		json_object_end(json);
	}
	json_array_end(json);
}

static void
status_write_export(void *data, const struct visited *visited)
{
	const struct export *export = visited->export;
	const struct access *access = visited->access;
	const struct export_writer *writer = data;
	struct json *json = writer->json;
	struct image_status status;

	image_status(export->image, &status);
	json_object_begin(json, NULL);
	json_put_string(json, "name", export->config->name);
	json_put_string(json, "description", export->config->description);
	json_put_string(json, "allow", access ? access->allow : NULL);
	json_put_string(json, "allow_write", access ? access->allow_write : NULL);
	json_put_uint(json, "connections", visited->connections);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++)
		limits_put_json(json, scope, &visited->limits[scope]);
	snapshot_put_status(json, export, writer->socket);
	json_put_string(json, "clone_of", export->owner ? export->origin->config->name : NULL);
	write_traffic(json, export);
	write_checkpoints(json, export->checkpoints);
	json_image(json, status.path, &status);
	json_object_end(json);
}

/* The same, unless it is a snapshot: of the only other export. */
static void
write_original(void *data, const struct visited *visited)
{
	if (!visited->export->origin)
		status_write_export(data, visited);
}

/* The path of the socket that is only for clients of snapshots; NULL: there is none. */
static const char *
status_socket(const struct status *status)
{
	return status->socket ? status->socket(status->data) : NULL;
}

static void
write_status(struct json *json, const struct status *status)
{
	const struct server_config *config = status->config;
	struct survey *CLEANUP_FREE survey = survey_new(status->exports);
	struct export_writer writer = {json, status_socket(status)};

	json_object_begin(json, NULL);
	json_put_string(json, "program", "nbdloopd");
	json_put_string(json, "version", PACKAGE_VERSION);
	json_put_uint(json, "pid", (uint64_t)getpid());
	json_put_string(json, "host", status->host);
	json_put_uint(json, "uptime", (clock_ns(CLOCK_BOOTTIME) - status->begun) / NS_PER_SECOND);
	json_put_bool(json, "swap", config->swap == TRISTATE_ON);
	json_put_string(json, "sandbox", sandbox_text());
	json_put_string(json, "tls", tls_choice_name(config_tls(config)));
	json_put_uint(json, "threads", status->exports->worker_count);
	json_put_uint(json, "poll_max_us", config->poll_max_us);
	json_put_uint(json, "max_connections", config->max_connections);
	json_put_string(json, "http", status->http);
	json_array_begin(json, "exports");
	exports_visit(status->exports, NULL, status_write_export, &writer);
	json_array_end(json);
	write_loops(json, survey);
	json_array_begin(json, "connections");
	for (unsigned int i = 0; survey && i < survey->count; i++) {
		json_put_values(json, survey->parts[i].connections);
		free(survey->parts[i].connections);
	}
	json_array_end(json);
	json_object_end(json);
}

/* ---- changes */

/* The configuration of the new export, or NULL with *error. */
static struct export_config *
parse_addition(const struct status *status, const char *text, char **error)
{
	struct server_config one;
	struct export_config *export;
	int r = config_init(&one);

	if (r < 0)
		return NULL;
	/* It has the server's defaults, like an export of the command line; but the rules and
	 * limits are those of the last SIGHUP. */
	r = config_copy_defaults(&one.defaults, &status->config->defaults);
	if (r == 0)
		r = exports_copy_defaults(status->exports, &one.defaults);
	if (r == 0)
		r = command_line_add_export(&one, text, error);
	if (r == 0)
		r = config_check(&one, config_proofs(status->config), error);
	export = r < 0 ? NULL : steal_pointer(&one.exports);
	config_fini(&one);
	return export;
}

static int
add_export(const struct status *status, const char *text, char **name, char **error)
{
	struct export_config *export = parse_addition(status, text, error);

	if (!export)
		return -EINVAL;
	*name = strdup(export->name);
	if (!*name) {
		export_config_free(export);
		return -ENOMEM;
	}
	return exports_add(status->exports, export, error);
}

static int
set_limits(const struct status *status, const struct control_request *request, char **error)
{
	const struct control_limits *given[LIMIT_SCOPES] = {
		[LIMIT_EXPORT] = &request->limits, [LIMIT_CLIENT] = &request->client_limits};
	struct limit_texts texts[LIMIT_SCOPES];

	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++)
		texts[scope] = (struct limit_texts){
			.rates = {[LIMIT_IOPS] = given[scope]->iops,
				  [LIMIT_BANDWIDTH] = given[scope]->bandwidth},
			.connections = given[scope]->connections,
		};
	return exports_set_limits(status->exports, request->export_name, texts, error);
}

static void
change_export(const struct status *status, const struct control_request *request, struct json *json)
{
	char *CLEANUP_FREE error = NULL;
	char *CLEANUP_FREE added = NULL;
	const char *name = request->export_name;
	struct export_writer writer = {json, NULL};
	int r;

	if (request->verb == CONTROL_ADD) {
		r = add_export(status, request->addition, &added, &error);
		name = added;
	} else if (request->verb == CONTROL_SET_RULES) {
		r = exports_set_access(status->exports, name, request->allow, request->allow_write,
				       config_proofs(status->config), &error);
	} else if (request->verb == CONTROL_SET_LIMITS) {
		r = set_limits(status, request, &error);
	} else if (request->verb == CONTROL_SET) {
		r = exports_set_direct(status->exports, name, request->direct_io, &error);
	} else {
		r = exports_resize(status->exports, name, &error);
	}
	writer.socket = status_socket(status);
	if (r == -ENOENT && !error)
		answer_no_export(json, name, "");
	else if (r < 0)
		answer_error(json, error);
	else if (exports_visit(status->exports, name, name ? status_write_export : write_original,
			       &writer) == 0)
		answer_no_export(json, name, ""); /* it has just been removed */
}

static void
remove_export(const struct status *status, const char *name, struct json *json)
{
	if (exports_remove(status->exports, name) < 0) {
		answer_no_export(json, name, "");
		return;
	}
	json_object_begin(json, NULL);
	json_put_string(json, "removed", name);
	json_object_end(json);
}

static void
disconnect_clients(const struct status *status, const struct control_request *request,
		   struct json *json)
{
	char *CLEANUP_FREE error = NULL;
	unsigned int ended;
	int r = exports_disconnect(status->exports, request->clients, request->export_name, &ended,
				   &error);

	if (r < 0) {
		answer_error(json, error);
		return;
	}
	/* One that was removed may still have clients. */
	if (ended == 0 && request->export_name &&
	    exports_visit(status->exports, request->export_name, NULL, NULL) == 0) {
		answer_no_export(json, request->export_name, "");
		return;
	}
	json_object_begin(json, NULL);
	json_put_uint(json, "disconnected", ended);
	json_object_end(json);
}

static void
reload_configuration(const struct status *status, struct json *json)
{
	char *CLEANUP_FREE text = NULL;
	unsigned int failed = 0;

	if (!status->reload(status->reload_data, &text, &failed)) {
		answer_error(json, text);
		return;
	}
	json_object_begin(json, NULL);
	json_put_string(json, "reloaded", text);
	json_put_uint(json, "failed", failed);
	json_object_end(json);
}

/* The answer to somebody who may use the control socket, and so this socket. */
static void
listen_on_this_machine(const struct status *status, struct json *json)
{
	char *CLEANUP_FREE error = NULL;
	int r = status->listen ? status->listen(status->data, true, &error) : -EOPNOTSUPP;

	if (r < 0) {
		answer_error(json, error ? error : strerror(-r));
		return;
	}
	json_object_begin(json, NULL);
	json_put_string(json, "socket", status_socket(status));
	json_object_end(json);
}

/* ---- moments of images: snapshots and checkpoints */

struct snapshot_writer {
	struct export_writer writer;
	const struct snapshot_request *request;
};

static void
write_snapshot(void *data, const struct visited *visited)
{
	struct snapshot_writer *writer = data;

	if (snapshot_is_of_request(visited->export, writer->request))
		status_write_export(&writer->writer, visited);
}

static void
status_make_snapshots(const struct status *status, const struct control_request *request,
		      struct json *json)
{
	const struct snapshot_request wanted = {
		.name = request->snapshot,
		.origin = request->export_name,
		.all = request->all,
		.checkpoint = request->checkpoint,
		.scratch = request->scratch,
		.scratch_size = request->scratch_size,
		.expire = request->expire,
	};
	struct snapshot_writer writer = {{json, NULL}, &wanted};
	char *CLEANUP_FREE error = NULL;
	int r = status->listen ? status->listen(status->data, request->local, &error) : 0;

	if (r == 0)
		r = exports_snapshot(status->exports, &wanted, &error);
	if (r == -ENOENT && !error) {
		answer_no_export(json, request->export_name, "");
		return;
	}
	if (r < 0) {
		answer_error(json, error);
		return;
	}
	writer.writer.socket = status_socket(status);
	if (!request->all &&
	    exports_visit(status->exports, request->snapshot, write_snapshot, &writer) == 0)
		answer_no_export(json, request->snapshot, ""); /* it has just been removed */
	if (!request->all)
		return;
	json_object_begin(json, NULL);
	json_array_begin(json, "exports");
	exports_visit(status->exports, NULL, write_snapshot, &writer);
	json_array_end(json);
	json_object_end(json);
}

static void
status_change_checkpoint(const struct status *status, const struct control_request *request,
			 struct json *json)
{
	bool create = request->verb == CONTROL_CREATE_CHECKPOINT;
	uint64_t granule = CHECKPOINT_GRANULE;
	char *CLEANUP_FREE error = NULL;
	int r = 0;

	if (request->granularity)
		r = unit_parse_size(request->granularity, &granule);
	if (r < 0)
		error_set(&error, r, "granularity=%s: must be a size, such as 64k",
			  request->granularity);
	else if (create)
		r = exports_begin_checkpoint(status->exports, request->export_name,
					     request->checkpoint, granule, &error);
	else
		r = exports_end_checkpoint(status->exports, request->export_name,
					   request->checkpoint, &error);
	if (r == -ENOENT && !error) {
		answer_no_export(json, request->export_name, ", or it is a snapshot");
		return;
	}
	if (r < 0) {
		answer_error(json, error);
		return;
	}
	json_object_begin(json, NULL);
	json_put_string(json, create ? "created" : "deleted", request->checkpoint);
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
	else if (request->verb == CONTROL_DISCONNECT)
		disconnect_clients(status, request, &json);
	else if (request->verb == CONTROL_RELOAD)
		reload_configuration(status, &json);
	else if (request->verb == CONTROL_LISTEN)
		listen_on_this_machine(status, &json);
	else if (request->verb == CONTROL_CREATE_CHECKPOINT ||
		 request->verb == CONTROL_DELETE_CHECKPOINT)
		status_change_checkpoint(status, request, &json);
	else if (request->verb == CONTROL_SNAPSHOT)
		status_make_snapshots(status, request, &json);
	else
		change_export(status, request, &json);
}
