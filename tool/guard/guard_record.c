/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_record.h"

#include "tool/failure.h"
#include "tool/guard/guard_files.h"
#include "tool/guard/guard_link.h"
#include "tool/link/server_link.h"
#include "tool/system_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define RECORD_MAX (64 << 10)

static char *
path_of_device(const struct device *device)
{
	g_autofree char *control = server_link_path(device->backend);

	return guard_files_path(control, device->pid, "plan");
}

/* Whether the file belongs to an attached device, which can still be adopted. */
static bool
record_is_used(const char *path)
{
	g_autoptr(GPtrArray) devices = devices_identify_attached(NULL);
	bool used = false;

	for (guint i = 0; devices && i < devices->len && !used; i++) {
		const struct device *device = g_ptr_array_index(devices, i);
		g_autofree char *its = path_of_device(device);

		used = g_str_equal(its, path);
	}
	return used;
}

static bool
lock_record(int fd, int command, struct flock *answer)
{
	*answer = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, command, answer) == 0;
}

/* ---- writing */

/* A path may have any bytes, JSON only text.  Nothing is set for NULL. */
static void
record_set_bytes(json_t *object, const char *name, const char *bytes)
{
	g_autofree char *text = bytes ? g_strescape(bytes, NULL) : NULL;

	if (text)
		json_object_set_new(object, name, json_string(text));
}

static json_t *
describe_device(const struct guard_plan *plan, const struct guard_progress *progress)
{
	const struct source_tls *tls = &plan->source.tls;
	const GPtrArray *options = plan->source.server_options;
	json_t *object = json_object(), *array = json_array();

	for (guint i = 0; options && i < options->len; i++)
		json_array_append_new(array, json_string(g_ptr_array_index(options, i)));
	record_set_bytes(object, "place", progress->place);
	json_object_set_new(object, "device", json_integer((json_int_t)progress->image.device));
	json_object_set_new(object, "inode", json_integer((json_int_t)progress->image.inode));
	json_object_set_new(object, "direct-io", json_string(progress->direct_io));
	json_object_set_new(object, "iops-limit", json_string(progress->iops_limit ?: "0"));
	json_object_set_new(object, "bandwidth-limit",
			    json_string(progress->bandwidth_limit ?: "0"));
	json_object_set_new(object, "server-read-only", json_boolean(progress->read_only));
	record_set_bytes(object, "ceph-fence", progress->ceph_fence);
	json_object_set_new(object, "remote", json_boolean(plan->source.remote));
	/* Paths and names, no secret. */
	json_object_set_new(object, "tls-wanted", json_boolean(tls->wanted));
	json_object_set_new(object, "tls-proxy", json_boolean(tls->proxy));
	json_object_set_new(object, "tls-verify", json_boolean(tls->verify));
	record_set_bytes(object, "tls-certificates", tls->certificates);
	record_set_bytes(object, "tls-psk", tls->psk);
	record_set_bytes(object, "tls-user", tls->user);
	record_set_bytes(object, "tls-hostname", tls->hostname);
	json_object_set_new(object, "tls", json_string(progress->tls));
	record_set_bytes(object, "remote-server", progress->server);
	record_set_bytes(object, "misfits", progress->misfits);
	json_object_set_new(object, "flags", json_integer(progress->flags));
	json_object_set_new(object, "force", json_boolean(plan->source.force));
	json_object_set_new(object, "connections", json_integer(plan->source.connections));
	json_object_set_new(object, "silence", json_integer(plan->source.silence));
	json_object_set_new(object, "server", json_integer(plan->source.server));
	json_object_set_new(object, "options", array);
	json_object_set_new(object, "planned-direct-io",
			    json_string(plan->source.direct_io ? plan->source.direct_io : "auto"));
	json_object_set_new(object, "read-only", json_boolean(plan->attachment.read_only));
	json_object_set_new(object, "timeout", json_integer(plan->attachment.timeout));
	json_object_set_new(object, "dead-timeout", json_integer(plan->attachment.dead_timeout));
	json_object_set_new(object, "swap", json_boolean(plan->attachment.swap));
	return object;
}

/* A single write, padded to the length of the previous text: if the guard is killed meanwhile, the
 * file holds the old text or the new one. */
bool
guard_record_write(struct guard_record *record, const struct guard_plan *plan,
		   const struct guard_progress *progress, GError **error)
{
	json_auto_t *object = describe_device(plan, progress);
	g_autofree char *text = json_dumps(object, JSON_COMPACT);
	size_t length = strlen(text), size = MAX(record->size, length);
	g_autofree char *padded = g_malloc(size);

	memset(padded, '\n', size);
	memcpy(padded, text, length);
	if (pwrite(record->fd, padded, size, 0) != (ssize_t)size)
		return failure_errno(error, errno, "%s can't be written", record->path);
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
	if (record_is_used(record->path)) {
		guard_record_leave(record);
		return failure(error, EEXIST,
			       "a device has the files of another guard with the process ID %d",
			       (int)getpid());
	}
	/* It may be left from an earlier guard with the same process ID. */
	unlink(record->path);
	record->fd = open(record->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (record->fd >= 0 && lock_record(record->fd, F_SETLK, &answer))
		return true;
	failure_errno(error, errno, "%s can't be made", record->path);
	guard_record_close(record);
	return false;
}

/* ---- reading */

static json_int_t
record_number(json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static bool
record_flag(json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

static const char *
record_text(json_t *object, const char *name)
{
	return g_intern_string(json_string_value(json_object_get(object, name)) ?: "auto");
}

/* NULL: none. */
static const char *
record_limit(json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value && strcmp(value, "0") != 0 ? g_intern_string(value) : NULL;
}

/* What record_set_bytes() has set, or NULL.  Caller frees. */
static char *
record_bytes(json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? g_strcompress(value) : NULL;
}

static void
recall_device(json_t *object, struct guard_plan *plan, struct guard_progress *progress)
{
	struct source_plan *source = &plan->source;
	struct attachment_plan *attachment = &plan->attachment;
	json_t *option;
	size_t i;

	progress->place = g_strcompress(json_string_value(json_object_get(object, "place")) ?: "");
	progress->image.device = (dev_t)record_number(object, "device");
	progress->image.inode = (ino_t)record_number(object, "inode");
	progress->direct_io = record_text(object, "direct-io");
	progress->iops_limit = record_limit(object, "iops-limit");
	progress->bandwidth_limit = record_limit(object, "bandwidth-limit");
	progress->read_only = record_flag(object, "server-read-only");
	progress->ceph_fence = record_bytes(object, "ceph-fence");
	progress->tls = g_intern_string(json_string_value(json_object_get(object, "tls")) ?: "");
	progress->server = record_bytes(object, "remote-server");
	progress->misfits = record_bytes(object, "misfits");
	progress->flags = (uint16_t)record_number(object, "flags");
	*plan = (struct guard_plan){.source.place = g_strdup(progress->place)};
	source->remote = record_flag(object, "remote");
	source->force = record_flag(object, "force");
	source->tls = (struct source_tls){
		.wanted = record_flag(object, "tls-wanted"),
		.proxy = record_flag(object, "tls-proxy"),
		.verify = record_flag(object, "tls-verify"),
		.certificates = record_bytes(object, "tls-certificates"),
		.psk = record_bytes(object, "tls-psk"),
		.user = record_bytes(object, "tls-user"),
		.hostname = record_bytes(object, "tls-hostname"),
	};
	source->connections = MAX((unsigned int)record_number(object, "connections"), 1);
	source->silence = (unsigned int)record_number(object, "silence");
	source->server = (enum server_kind)record_number(object, "server");
	source->server_options = g_ptr_array_new_with_free_func(g_free);
	json_array_foreach(json_object_get(object, "options"), i, option)
		g_ptr_array_add(source->server_options, g_strdup(json_string_value(option)));
	source->direct_io = record_text(object, "planned-direct-io");
	attachment->read_only = record_flag(object, "read-only");
	attachment->timeout = (unsigned int)record_number(object, "timeout");
	attachment->dead_timeout = (unsigned int)record_number(object, "dead-timeout");
	attachment->swap = record_flag(object, "swap");
}

void
guard_progress_fini(struct guard_progress *progress)
{
	g_free(progress->place);
	g_free(progress->ceph_fence);
	g_free(progress->server);
	g_free(progress->misfits);
	*progress = (struct guard_progress){.place = NULL};
}

static bool
read_record(struct guard_record *record, struct guard_plan *plan, struct guard_progress *progress,
	    GError **error)
{
	g_autofree char *json = g_malloc0(RECORD_MAX + 1);
	ssize_t size = pread(record->fd, json, RECORD_MAX, 0);
	json_auto_t *object = size > 0 ? json_loads(json, 0, NULL) : NULL;

	if (!json_is_object(object))
		return failure(error, EPROTO, "%s does not describe a device", record->path);
	record->size = (size_t)size;
	recall_device(object, plan, progress);
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
		failure_errno(error, errno,
			      "the record of the guard of /dev/%s can't be opened: %s",
			      device->name, record->path);
	else if (!lock_record(record->fd, F_SETLK, &answer))
		failure(error, errno == EACCES || errno == EAGAIN ? EBUSY : errno,
			"/dev/%s has a guard that is alive", device->name);
	else if (read_record(record, plan, progress, error))
		return true;
	guard_record_leave(record);
	return false;
}

bool
guard_record_read(const struct device *device, struct guard_plan *plan,
		  struct guard_progress *progress, GError **error)
{
	struct guard_record record = {.path = path_of_device(device), .fd = -1};
	bool done;

	record.fd = open(record.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	done = record.fd >= 0
		       ? read_record(&record, plan, progress, error)
		       : failure_errno(error, errno,
				       "the record of the guard of /dev/%s can't be opened: %s",
				       device->name, record.path);
	guard_record_leave(&record);
	return done;
}

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

/* ---- whether the guard is alive */

pid_t
guard_record_keeper(const struct device *device)
{
	g_autofree char *path = path_of_device(device),
			*control = server_link_path(device->backend);
	int fd = device->pid != 0 && device->backend ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
						     : -1;
	struct flock answer;
	bool told;

	if (device->pid == 0 || !device->backend || (fd < 0 && errno != ENOENT))
		return -1;
	if (fd < 0) {
		/* Without a record, its process name tells the guard. */
		const pid_t pid = control ? guard_files_owner(control) : device->pid;
		g_autofree char *name = system_file_read("/proc/%d/comm", (int)pid);

		return g_strcmp0(name, "nbdloop") == 0 ? pid : -1;
	}
	told = lock_record(fd, F_GETLK, &answer);
	close(fd);
	if (!told)
		return -1;
	/* In another PID namespace, it has no process ID here. */
	return answer.l_type == F_UNLCK ? 0 : answer.l_pid > 0 ? answer.l_pid : -1;
}
