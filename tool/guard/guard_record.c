/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_record.h"

#include "tool/failure.h"
#include "tool/guard/guard_files.h"
#include "tool/guard/guard_link.h"
#include "tool/server/server_link.h"

#include <errno.h>
#include <fcntl.h>
#include <json-glib/json-glib.h>
#include <string.h>
#include <unistd.h>

#define RECORD_MAX (64 << 10)

static char *
path_of_device(const struct device *device)
{
	g_autofree char *control = server_link_path(device->backend);

	return guard_files_path(control, device->pid, "plan");
}

/* Whether a device that is attached has that file, or will have it when it is adopted. */
static bool
is_used(const char *path)
{
	g_autoptr(GPtrArray) devices = devices_read("/sys", NULL);
	bool used = false;

	for (guint i = 0; devices && i < devices->len && !used; i++) {
		const struct device *device = g_ptr_array_index(devices, i);
		g_autofree char *its = path_of_device(device);

		used = device->pid != 0 && g_str_equal(its, path);
	}
	return used;
}

static bool
lock(int fd, int command, struct flock *answer)
{
	*answer = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, command, answer) == 0;
}

/* ---- what is written */

/* Paths are any bytes, and JSON is not. */
static void
set_bytes(JsonObject *object, const char *name, const char *bytes)
{
	g_autofree char *text = g_strescape(bytes, NULL);

	json_object_set_string_member(object, name, text);
}

static JsonArray *
options_array(const GPtrArray *options)
{
	JsonArray *array = json_array_new();

	for (guint i = 0; options && i < options->len; i++)
		json_array_add_string_element(array, g_ptr_array_index(options, i));
	return array;
}

static JsonNode *
describe(const struct guard_plan *plan, const struct guard_progress *progress)
{
	JsonObject *object = json_object_new();
	JsonNode *node = json_node_new(JSON_NODE_OBJECT);

	set_bytes(object, "place", progress->place);
	json_object_set_int_member(object, "device", (gint64)progress->device);
	json_object_set_int_member(object, "inode", (gint64)progress->inode);
	json_object_set_string_member(object, "direct-io", progress->direct_io);
	json_object_set_boolean_member(object, "server-read-only", progress->read_only);
	json_object_set_boolean_member(object, "remote", plan->upstream.remote);
	json_object_set_boolean_member(object, "force", plan->upstream.force);
	json_object_set_int_member(object, "connections", plan->upstream.connections);
	json_object_set_int_member(object, "server", plan->upstream.server);
	json_object_set_array_member(object, "options",
				     options_array(plan->upstream.server_options));
	json_object_set_string_member(object, "planned-direct-io",
				      plan->upstream.direct_io ? plan->upstream.direct_io : "auto");
	json_object_set_boolean_member(object, "read-only", plan->attachment.read_only);
	json_object_set_int_member(object, "timeout", plan->attachment.timeout);
	json_object_set_int_member(object, "dead-timeout", plan->attachment.dead_timeout);
	json_object_set_boolean_member(object, "swap", plan->attachment.swap);
	json_node_take_object(node, object);
	return node;
}

/* One write, padded to the length of the text before it: if the guard is killed here, the file
 * holds the old text or the new one. */
bool
guard_record_write(struct guard_record *record, const struct guard_plan *plan,
		   const struct guard_progress *progress, GError **error)
{
	g_autoptr(JsonNode) node = describe(plan, progress);
	g_autofree char *text = json_to_string(node, false);
	size_t length = strlen(text), size = MAX(record->size, length);
	g_autofree char *padded = g_malloc(size);

	memset(padded, '\n', size);
	memcpy(padded, text, length);
	if (pwrite(record->fd, padded, size, 0) != (ssize_t)size)
		return failure(error, errno, "%s can't be written: %s", record->path,
			       g_strerror(errno));
	record->size = size;
	return true;
}

void
guard_record_leave(struct guard_record *record)
{
	if (record->path && record->fd >= 0)
		close(record->fd);
	g_free(record->path);
	*record = (struct guard_record){.fd = -1};
}

bool
guard_record_make(struct guard_record *record, const char *control, GError **error)
{
	struct flock answer;

	*record = (struct guard_record){.path = guard_files_path(control, getpid(), "plan"),
					.fd = -1};
	if (is_used(record->path)) {
		guard_record_leave(record);
		return failure(error, EEXIST,
			       "a device has the files of another guard with the process ID %d",
			       (int)getpid());
	}
	/* Of a guard with the same process ID, long ago. */
	unlink(record->path);
	record->fd = open(record->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (record->fd >= 0 && lock(record->fd, F_SETLK, &answer))
		return true;
	failure(error, errno, "%s can't be made: %s", record->path, g_strerror(errno));
	guard_record_close(record);
	return false;
}

/* ---- what was written */

static unsigned int
number(JsonObject *object, const char *name, unsigned int otherwise)
{
	return (unsigned int)json_object_get_int_member_with_default(object, name, otherwise);
}

static bool
flag(JsonObject *object, const char *name)
{
	return json_object_get_boolean_member_with_default(object, name, false);
}

static const char *
text(JsonObject *object, const char *name)
{
	return g_intern_string(json_object_get_string_member_with_default(object, name, "auto"));
}

static GPtrArray *
options_of(JsonObject *object)
{
	JsonArray *array = json_object_has_member(object, "options")
				   ? json_object_get_array_member(object, "options")
				   : NULL;
	GPtrArray *options = g_ptr_array_new_with_free_func(g_free);

	for (guint i = 0; array && i < json_array_get_length(array); i++)
		g_ptr_array_add(options, g_strdup(json_array_get_string_element(array, i)));
	return options;
}

static void
recall(JsonObject *object, struct guard_plan *plan, struct guard_progress *progress)
{
	*progress = (struct guard_progress){
		.place = g_strcompress(
			json_object_get_string_member_with_default(object, "place", "")),
		.device = (dev_t)json_object_get_int_member_with_default(object, "device", 0),
		.inode = (ino_t)json_object_get_int_member_with_default(object, "inode", 0),
		.direct_io = text(object, "direct-io"),
		.read_only = flag(object, "server-read-only"),
	};
	*plan = (struct guard_plan){
		.upstream =
			{
				.place = g_strdup(progress->place),
				.remote = flag(object, "remote"),
				.force = flag(object, "force"),
				.connections = number(object, "connections", 1),
				.server =
					(enum server_kind)number(object, "server", SERVER_NBDLOOPD),
				.server_options = options_of(object),
				.direct_io = text(object, "planned-direct-io"),
			},
		.attachment =
			{
				.read_only = flag(object, "read-only"),
				.timeout = number(object, "timeout", 0),
				.dead_timeout = number(object, "dead-timeout", 0),
				.swap = flag(object, "swap"),
			},
	};
}

void
guard_progress_fini(struct guard_progress *progress)
{
	g_free(progress->place);
	*progress = (struct guard_progress){.place = NULL};
}

static bool
read_all(struct guard_record *record, struct guard_plan *plan, struct guard_progress *progress,
	 GError **error)
{
	g_autofree char *bytes = g_malloc0(RECORD_MAX + 1);
	ssize_t size = pread(record->fd, bytes, RECORD_MAX, 0);
	g_autoptr(JsonNode) node = size > 0 ? json_from_string(bytes, NULL) : NULL;

	if (!node || !JSON_NODE_HOLDS_OBJECT(node))
		return failure(error, EPROTO, "%s holds no description of a device", record->path);
	record->size = (size_t)size;
	recall(json_node_get_object(node), plan, progress);
	return true;
}

bool
guard_record_take(struct guard_record *record, const struct device *device, struct guard_plan *plan,
		  struct guard_progress *progress, GError **error)
{
	struct flock answer;

	*record = (struct guard_record){.path = path_of_device(device), .fd = -1};
	record->fd = open(record->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (record->fd < 0)
		failure(error, errno, "what the guard of /dev/%s knew can't be found: %s: %s",
			device->name, record->path, g_strerror(errno));
	else if (!lock(record->fd, F_SETLK, &answer))
		failure(error, errno == EACCES || errno == EAGAIN ? EBUSY : errno,
			"/dev/%s has a guard, which lives", device->name);
	else if (read_all(record, plan, progress, error))
		return true;
	guard_record_leave(record);
	return false;
}

/* ---- its end */

void
guard_record_close(struct guard_record *record)
{
	if (record->path && record->fd >= 0)
		unlink(record->path);
	guard_record_leave(record);
}

void
guard_record_forget(const struct device *device)
{
	g_autofree char *path = path_of_device(device),
			*control = server_link_path(device->backend);

	unlink(path);
	if (control)
		guard_link_forget(control);
}

/* ---- whether it lives */

/* The guard of a device without a record, known by the name of its process; -1: there is none. */
static pid_t
keeper_by_name(pid_t pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/comm", (int)pid);
	g_autofree char *name = NULL;

	return g_file_get_contents(path, &name, NULL, NULL) &&
			       g_str_equal(g_strchomp(name), "nbdloop")
		       ? pid
		       : -1;
}

pid_t
guard_record_keeper(const struct device *device)
{
	g_autofree char *path = path_of_device(device),
			*control = server_link_path(device->backend);
	int fd = device->pid != 0 && device->backend ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
						     : -1;
	struct flock answer;
	bool told;

	if (device->pid == 0 || !device->backend)
		return -1;
	if (fd < 0)
		return errno == ENOENT
			       ? keeper_by_name(control ? guard_files_owner(control) : device->pid)
			       : -1;
	told = lock(fd, F_GETLK, &answer);
	close(fd);
	if (!told)
		return -1;
	/* In another namespace of processes it has no number here. */
	return answer.l_type == F_UNLCK ? 0 : answer.l_pid > 0 ? answer.l_pid : -1;
}
