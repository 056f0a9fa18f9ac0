/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit-loop-plugin: nbdkit's callbacks for configuration, start and end, and the facts that a
 * client is told. plugin_requests.c has those for requests.
 */
#include "common/cleanup.h"
#include "common/event.h"
#include "common/log.h"
#include "common/reclaim.h"
#include "control/answer.h"
#include "control/control_request.h"
#include "control/control_socket.h"
#include "engine/backend/choice.h"
#include "engine/backing/image_kinds.h"
#include "engine/image/image_status.h"
#include "plugins/loop/nbdkit_api.h"
#include "plugins/loop/plugin_config.h"
#include "plugins/loop/plugin_exports.h"
#include "plugins/loop/plugin_requests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- requests of the control socket */

static void
write_export(struct json *json, const char *key, struct export *e)
{
	char *CLEANUP_FREE path = exports_path(e);
	struct image_status status;

	image_status(e->image, &status);
	json_object_begin(json, key);
	json_put_string(json, "name", e->name);
	json_put_uint(json, "connections", e->connections);
	json_image(json, path, &status);
	json_object_end(json);
}

static void
write_export_in_list(void *data, struct export *e)
{
	write_export(data, NULL, e);
}

static void
plugin_status_write(struct json *json, const struct loop_config *config)
{
	json_object_begin(json, NULL);
	json_put_string(json, "program", "nbdkit-loop-plugin");
	json_put_string(json, "version", PACKAGE_VERSION);
	json_put_uint(json, "pid", (uint64_t)getpid());
	json_put_bool(json, "swap", config->swap == TRISTATE_ON);
	json_array_begin(json, "exports");
	exports_visit(write_export_in_list, json);
	json_array_end(json);
	json_object_end(json);
}

static void
plugin_change(const struct control_request *request, struct json *json)
{
	struct export *e = exports_get(request->export_name);
	char *CLEANUP_FREE error = NULL;
	int r;

	if (!e) {
		answer_no_export(json, request->export_name, ", or no client uses it now");
		return;
	}
	r = request->verb == CONTROL_SET ? image_set_direct(e->image, request->direct_io, &error)
					 : image_resize(e->image, &error);
	if (r < 0)
		answer_error(json, error);
	else
		write_export(json, NULL, e);
	exports_put(e);
}

/* A control_handler. */
static void
plugin_handle_request(const struct control_request *request, FILE *out, void *data)
{
	struct json json;

	json_init(&json, out);
	if (request->verb == CONTROL_STATUS)
		plugin_status_write(&json, data);
	else if (request->verb == CONTROL_SET || request->verb == CONTROL_RESIZE)
		plugin_change(request, &json);
	else if (request->verb == CONTROL_SET_RULES || request->verb == CONTROL_DISCONNECT)
		answer_error(&json,
			     "the plugin knows nothing of its clients: see nbdkit-ip-filter(1)");
	else if (request->verb == CONTROL_SET_LIMITS)
		answer_error(&json, "the plugin has no limits: see nbdkit-rate-filter(1)");
	else if (request->verb == CONTROL_RELOAD)
		answer_error(&json, "the plugin has no configuration to read again");
	else if (request->verb == CONTROL_LISTEN)
		answer_error(
			&json,
			"the plugin cannot listen: nbdkit does, and nbdloop check takes a URI");
	else if (request->verb == CONTROL_SNAPSHOT)
		answer_error(&json, "the plugin makes no snapshots: nbdloopd does");
	else if (request->verb == CONTROL_CREATE_CHECKPOINT ||
		 request->verb == CONTROL_DELETE_CHECKPOINT)
		answer_error(&json, "the plugin has no checkpoints: nbdloopd has them");
	else
		answer_error(
			&json,
			"the plugin can neither add nor remove exports: file= and dir= choose what is served");
}

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* nbdkit's default for -t; a plugin does not know the value. */
#define DEFAULT_THREADS 16

/* With swap=on: memory for the buffers of nbdkit's threads, in bytes: 2 MiB for each thread of a
 * connection. The Linux kernel's requests have at most 1.25 MiB. */
#define SWAP_HEAP ((size_t)DEFAULT_THREADS * (2 << 20))

static struct loop_config config;
static struct control_socket *control;
static pid_t starter; /* the process that the user started; nbdkit may fork */

/* Until nbdkit goes into the background, the user reads standard error; after that, nbdkit's log
 * has only errors. */
static void
log_to_nbdkit(enum log_level level, const char *text)
{
	bool background = starter && getpid() != starter;

	if (level == LOG_LEVEL_ERROR)
		nbdkit_error("%s", text);
	else if (level == LOG_LEVEL_DEBUG || (level == LOG_LEVEL_INFO && background))
		nbdkit_debug("%s", text);
	else if (background)
		nbdkit_error("warning: %s", text);
	else
		fprintf(stderr, "nbdkit: loop: %s%s\n",
			level == LOG_LEVEL_WARNING ? "warning: " : "", text);
}

static void
loop_load(void)
{
	log_set_sink(log_to_nbdkit);
	if (options_init(loop_option_rows(), &config) < 0) {
		nbdkit_error("out of memory");
		exit(EXIT_FAILURE);
	}
}

static void
loop_unload(void)
{
	options_free(loop_option_rows(), &config);
}

static int
loop_config(const char *key, const char *value)
{
	const struct option_row *row = option_find(loop_option_rows(), key);
	char *CLEANUP_FREE path = NULL;
	char *CLEANUP_FREE error = NULL;
	struct near_word near = {.word = key};
	char hint[NEAR_WORD_HINT];
	int r;

	/* Of `nbdkit loop *.img', the last one alone would be served. */
	if (config.file && row && strcmp(row->name, "file") == 0) {
		nbdkit_error("there are two images, %s and %s: give one of them, or dir=PATH for a "
			     "directory of images",
			     config.file, value);
		return -1;
	}
	/* nbdkit changes its directory when it goes into the background. */
	if (row && option_is_path(row) &&
	    (strcmp(row->name, "file") != 0 || image_kind_is_path(value))) {
		value = path = nbdkit_absolute_path(value);
		if (!path)
			return -1;
	}
	r = option_set(loop_option_rows(), &config, key, value, &error);
	if (r == 0)
		return 0;
	options_offer_names(loop_option_rows(), &near);
	if (r == -ENOENT)
		nbdkit_error("unknown parameter '%s'%s; nbdkit loop --help lists them", key,
			     near_word_hint(&near, hint));
	else
		nbdkit_error("%s", error ? error : "out of memory");
	return -1;
}

static int
loop_config_complete(void)
{
	char *CLEANUP_FREE error = NULL;
	struct stat st;

	if (config.file && config.dir) {
		nbdkit_error("file= and dir= exclude each other: give one of them");
		return -1;
	}
	if (!config.file && !config.dir) {
		nbdkit_error(
			"you must supply the image: file=PATH (or just PATH), or dir=PATH for a directory of "
			"images; see nbdkit-loop-plugin(1)");
		return -1;
	}
	if (config.dir && config.image.temporary == TRISTATE_ON) {
		nbdkit_error("temporary=on is for file=: with dir=, each clone would end with its "
			     "last client");
		return -1;
	}
	if (config.swap && config.image.temporary == TRISTATE_ON) {
		nbdkit_error("swap=on is not possible with temporary=on: a clone needs new memory "
			     "for its map");
		return -1;
	}
	if (config.file && stat(config.file, &st) == 0 && S_ISDIR(st.st_mode)) {
		nbdkit_error("file=%s is a directory; dir=%s would serve each file in it",
			     config.file, config.file);
		return -1;
	}
	if (image_kind_check(config.file ? config.file : config.dir, &config.image, NULL, &error) <
	    0) {
		nbdkit_error("%s", error ? error : "out of memory");
		return -1;
	}
	/* With swap=on all contexts are made with the first client, so their number must be known:
	 * as many as nbdkit has threads for one connection. */
	if (config.swap && config.image.contexts == 0)
		config.image.contexts = DEFAULT_THREADS;
	return 0;
}

static int
loop_get_ready(void)
{
	char *CLEANUP_FREE error = NULL;

	starter = getpid();
	if (config.notify_fd && event_open(config.notify_fd, &error) < 0) {
		nbdkit_error("%s", error ? error : "out of memory");
		return -1;
	}
	/* Must come before nbdkit forks, makes threads, and changes to another user. */
	if (config.swap && reclaim_serve(&error) < 0) {
		nbdkit_error("swap=on: %s", error ? error : "out of memory");
		return -1;
	}
	if (exports_start(&config) < 0)
		return -1;
	if (config.control && control_socket_new(config.control, plugin_handle_request, &config,
						 &control, &error) < 0) {
		nbdkit_error("%s", error ? error : "out of memory");
		return -1;
	}
	return 0;
}

static int
loop_after_fork(void)
{
	static const char way_out[] = "fewer contexts= with a smaller depth= make it less";
	char *CLEANUP_FREE error = NULL;
	int r = exports_forked();

	if (r < 0)
		return r;
	if (config.swap) {
		/* NULL with dir=, where the number of open images is not known. */
		struct export *only = exports_get(NULL);
		uint64_t memory =
			only ? config.image.contexts * image_context_memory(only->image) : 0;

		if (only)
			exports_put(only);
		if (reclaim_lock_memory(SWAP_HEAP, memory, config.image.force == TRISTATE_ON,
					way_out, &error) < 0) {
			nbdkit_error("swap=on: %s", error ? error : "out of memory");
			return -1;
		}
		log_info("swap=on: memory locked, I/O flusher, out-of-memory killer kept away");
	}
	r = control ? control_socket_start(control) : 0;
	if (r < 0) {
		nbdkit_error("control=%s: %s", config.control, strerror(-r));
		return -1;
	}
	event_raise(&(struct event){.kind = EVENT_READY});
	return 0;
}

static void
loop_cleanup(void)
{
	event_raise(&(struct event){.kind = EVENT_ENDING});
	control_socket_free(steal_pointer(&control));
	exports_stop();
}

static void
loop_dump_plugin(void)
{
	const char *best = NULL;

	printf("loop_version=%s\n", PACKAGE_VERSION);
	for (unsigned int i = ENGINE_IO_URING; i <= ENGINE_THREADS; i++) {
		const char *name = image_engine_names[i];
		char reason[REASON_MAX];
		bool works = backend_works(i, reason) == 0;

		printf("loop_engine_%s=%s\n", name, works ? "yes" : "no");
		if (!works)
			printf("loop_engine_%s_reason=%s\n", name, reason);
		else if (!best)
			best = name;
	}
	printf("loop_engine=%s\n", best);
	for (const struct option_row *row = loop_option_rows(); row->name; row++) {
		char *CLEANUP_FREE value = option_value_text(row, &config);

		if (row->type != OPTION_STRING)
			printf("loop_default_%s=%s\n", row->name, value ? value : "");
	}
}

/* If it fails, nbdkit has logged the reason. */
static int
loop_add_name(void *data, const char *name)
{
	return nbdkit_add_export(data, name, NULL) < 0;
}

static int
loop_list_exports(int readonly, int is_tls, struct nbdkit_exports *exports)
{
	int r;

	(void)readonly;
	(void)is_tls;
	if (!exports_are_files_of_directory())
		return nbdkit_add_export(exports, "", NULL);
	r = exports_visit_names(loop_add_name, exports);
	if (r < 0)
		nbdkit_error("dir=%s: %s", config.dir, strerror(-r));
	return r ? -1 : 0;
}

struct first_name {
	unsigned int count;
	const char *name;
};

static int
remember_name(void *data, const char *name)
{
	struct first_name *first = data;

	if (first->count++ == 0)
		first->name = nbdkit_strdup_intern(name);
	return first->count > 1;
}

/* Returns the only file of dir=, or "" if there is not exactly one. */
static const char *
loop_default_export(int readonly, int is_tls)
{
	struct first_name first = {0};

	(void)readonly;
	(void)is_tls;
	if (exports_are_files_of_directory())
		exports_visit_names(remember_name, &first);
	return first.count == 1 && first.name ? first.name : "";
}

static void *
loop_open(int readonly)
{
	const char *name = nbdkit_export_name();
	struct connection *connection = calloc(1, sizeof(*connection));
	struct image_look look;

	if (!connection || !name) {
		nbdkit_error("out of memory");
		free(connection);
		return NULL;
	}
	connection->export = exports_join(name, !readonly);
	if (!connection->export) {
		free(connection);
		return NULL;
	}
	/* A file that has another size by now has it for this connection: nbdkit asks about it
	 * once. */
	image_look(connection->export->image, false, &look);
	if (look.resized)
		image_adopt_size(connection->export->image);
	connection->writable = !readonly && image_writable(connection->export->image);
	return connection;
}

static void
loop_close(void *handle)
{
	struct connection *connection = handle;

	exports_leave(connection->export);
	free(connection);
}

static struct image *
image_of(void *handle)
{
	struct connection *connection = handle;

	return connection->export->image;
}

static const char *
loop_export_description(void *handle)
{
	(void)handle;
	return "raw image served by nbdkit-loop-plugin";
}

static int64_t
loop_get_size(void *handle)
{
	return (int64_t)image_size(image_of(handle));
}

/* The largest request that the NBD specification lets any server expect ("Size constraints"). */
#define MAXIMUM_BLOCK (32u << 20)

static int
loop_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	*minimum = image_min_block(image_of(handle));
	*preferred = 4096;
	*maximum = MAXIMUM_BLOCK;
	return 0;
}

static int
loop_can_write(void *handle)
{
	struct connection *connection = handle;

	return connection->writable;
}

static int
loop_can_trim(void *handle)
{
	return loop_can_write(handle) && image_discards(image_of(handle));
}

static int
loop_can_fua(void *handle)
{
	return loop_can_write(handle) ? NBDKIT_FUA_NATIVE : NBDKIT_FUA_NONE;
}

static int
loop_can_cache(void *handle)
{
	return image_fills_cache(image_of(handle)) ? NBDKIT_CACHE_NATIVE : NBDKIT_CACHE_NONE;
}

static int
loop_can_extents(void *handle)
{
	return image_has_holes(image_of(handle));
}

static int
loop_is_rotational(void *handle)
{
	return image_rotational(image_of(handle));
}

static int
loop_says_yes(void *handle)
{
	(void)handle;
	return 1;
}

static struct nbdkit_plugin plugin = {
	.name = "loop",
	.longname = "nbdkit loop plugin",
	.version = PACKAGE_VERSION,
	.description = "Serve an image file or block device as the Linux loop driver would",
	.load = loop_load,
	.unload = loop_unload,
	.config = loop_config,
	.config_complete = loop_config_complete,
	.magic_config_key = "file",
	.dump_plugin = loop_dump_plugin,
	.get_ready = loop_get_ready,
	.after_fork = loop_after_fork,
	.cleanup = loop_cleanup,
	.list_exports = loop_list_exports,
	.default_export = loop_default_export,
	.open = loop_open,
	.close = loop_close,
	.export_description = loop_export_description,
	.get_size = loop_get_size,
	.block_size = loop_block_size,
	.can_write = loop_can_write,
	.can_flush = loop_says_yes,
	.is_rotational = loop_is_rotational,
	.can_trim = loop_can_trim,
	.can_zero = loop_can_write,
	.can_fast_zero = loop_can_write,
	.can_fua = loop_can_fua,
	.can_multi_conn = loop_says_yes,
	.can_extents = loop_can_extents,
	.can_cache = loop_can_cache,
	.pread = loop_pread,
	.pwrite = loop_pwrite,
	.flush = loop_flush,
	.trim = loop_trim,
	.zero = loop_zero,
	.cache = loop_cache,
	.extents = loop_extents,
	.errno_is_preserved = 1,
};

/* nbdkit copies the structure when it loads the library, so the help must exist by then. */
static char *config_help;

__attribute__((constructor)) static void
make_config_help(void)
{
	size_t size;
	FILE *out = open_memstream(&config_help, &size);

	if (!out)
		return;
	options_print_help(out, loop_option_rows(), false);
	if (fclose(out) == 0)
		plugin.config_help = config_help;
}

__attribute__((destructor)) static void
free_config_help(void)
{
	free(config_help);
}

NBDKIT_REGISTER_PLUGIN(plugin)
