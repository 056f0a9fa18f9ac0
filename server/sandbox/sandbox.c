/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/sandbox/sandbox.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "common/thread.h"
#include "engine/backend/restriction.h"
#include "engine/backing/image_kinds.h"
#include "engine/backing/open.h"
#include "server/sandbox/call_filter.h"
#include "server/sandbox/grants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- capabilities */

static const unsigned int kept[] = {
	CAP_DAC_OVERRIDE,
	CAP_DAC_READ_SEARCH,
	CAP_IPC_LOCK,
};

static bool
capability_is_kept(unsigned int capability)
{
	for (unsigned int i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (kept[i] == capability)
			return true;
	}
	return false;
}

/*
 * Gives up all capabilities of the calling thread that a running server doesn't need, also for
 * programs that it may start. Those that it keeps, if it has them:
 *
 * - CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: images, records of checkpoints, and keys that belong to
 *   other users, which are opened at SIGHUP and when an export is added;
 * - CAP_IPC_LOCK: memory that is registered with io_uring, and that of --swap, beyond ulimit -l.
 *
 * Those of a real-time priority, of --swap and of a port below 1024 have done their work at the
 * start. Returns 0 or -errno.
 */
static int
capabilities_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint32_t mask[_LINUX_CAPABILITY_U32S_3] = {0};

	/* EINVAL ends the list of those that the kernel knows. EPERM: without CAP_SETPCAP, nothing
	 * can be taken out. But then a program cannot gain any: there are no new privileges. */
	for (unsigned int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
		if (capability_is_kept(i) || prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0)
			continue;
		if (errno == EPERM)
			break;
		return -errno;
	}
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (unsigned int i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		mask[CAP_TO_INDEX(kept[i])] |= CAP_TO_MASK(kept[i]);
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].effective &= mask[i];
		data[i].permitted &= mask[i];
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return -errno;
	/* They would outlive the inheritable ones only until now, but nothing says so. */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return 0;
}

/* ---- the profile of AppArmor that the service's manager has put this process under */

/* Bytes of a profile's name, with the zero at its end; a longer one is cut. */
#define APPARMOR_NAME_MAX 128

struct apparmor {
	char profile[APPARMOR_NAME_MAX];
	char mode[32]; /* "enforce", "complain" or another one of the kernel's words */
};

/* Returns whether there is a profile. */
static bool
apparmor_find(struct apparmor *found)
{
	/* Not attr/current, which may be that of another security module. */
	int CLEANUP_CLOSE fd = open("/proc/self/attr/apparmor/current", O_RDONLY | O_CLOEXEC);
	char text[APPARMOR_NAME_MAX + sizeof(found->mode)];
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *mode;

	if (length <= 0)
		return false;
	text[length] = '\0';
	mode = strrchr(text, '(');
	if (!mode || mode == text || mode[-1] != ' ')
		return false;
	mode[-1] = '\0';
	mode++;
	mode[strcspn(mode, ")\n")] = '\0';
	snprintf(found->profile, sizeof(found->profile), "%.*s", APPARMOR_NAME_MAX - 1, text);
	snprintf(found->mode, sizeof(found->mode), "%.*s", (int)sizeof(found->mode) - 1, mode);
	return true;
}

#define TEXT_MAX 512

/* Most threads that can be noted as older than the sandbox: one or two for each image. */
#define OLDER_MAX 4096

/* A sanitizer's runtime makes calls of its own, and LeakSanitizer reads its own process. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

struct noted_grant {
	char *path;
	enum grant_use use;
};

static struct {
	struct noted_grant *grants;
	size_t count;
	const char *config_file;
	/* A kind of the configuration whose library can't be confined, or NULL. */
	const struct image_kind *unconfined;
	/* A kind of the configuration whose helper runs, or NULL. */
	const struct image_kind *prepared;
	int list, version;      /* of Landlock; -1: it is not in force */
	char text[TEXT_MAX];    /* what is in force, and what is not */
	char missing[TEXT_MAX]; /* of that, the latter */
	bool filters;           /* of system calls are there */
	bool required;          /* sandbox=on */
	pid_t older[OLDER_MAX]; /* threads that were there before */
} sandbox = {.list = -1, .text = "off"};

/* ---- grants */

static int
note_grant(void *data, const char *path, enum grant_use use)
{
	char *real = realpath(path, NULL);
	struct noted_grant *longer;

	(void)data;
	if (!real)
		return errno == ENOMEM ? -ENOMEM : 0;
	longer = reallocarray(sandbox.grants, sandbox.count + 1, sizeof(*longer));
	if (!longer) {
		free(real);
		return -ENOMEM;
	}
	sandbox.grants = longer;
	longer[sandbox.count++] = (struct noted_grant){real, use};
	return 0;
}

static int
prepare_helper(const struct image_kind *kind, char **error)
{
	int r = sandbox.prepared ? 0 : backing_prepare(kind, error);

	if (r == 0)
		sandbox.prepared = kind;
	return r;
}

int
sandbox_prepare(const struct server_config *config, const char *config_file, char **error)
{
	int r = 0;

	if (config->sandbox == TRISTATE_OFF)
		return 0;
	for (char **path = config->sandbox_path; path && *path; path++) {
		if (access(*path, F_OK) < 0)
			return error_set(error, -errno, "sandbox-path=%s: %s", *path,
					 strerror(errno));
	}
	sandbox.config_file = config_file;
	for (const struct export_config *export = config->exports; r == 0 && export;
	     export = export->next) {
		const struct image_kind *kind = image_kind_of(export->file);

		if (kind->unconfined)
			sandbox.unconfined = kind;
		else if (kind->helper)
			r = prepare_helper(kind, error);
		else
			r = grants_visit_export(export, note_grant, NULL);
	}
	return r;
}

/* ---- what is said */

static void __attribute__((format(printf, 2, 3)))
sandbox_append(char text[TEXT_MAX], const char *format, ...)
{
	size_t length = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + length, TEXT_MAX - length, format, args);
	va_end(args);
}

static void __attribute__((format(printf, 1, 2))) note_part(const char *format, ...)
{
	char part[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	sandbox_append(sandbox.text, "%s%s", sandbox.text[0] ? ", " : "", part);
}

static void
note_missing(const char *part, const char *reason)
{
	sandbox_append(sandbox.missing, "%sno %s: %s", sandbox.missing[0] ? "; " : "", part,
		       reason);
}

const char *
sandbox_text(void)
{
	return sandbox.text;
}

/* ---- what is denied */

void
sandbox_explain_denials(void)
{
	/* Another thread may read the one of the start. */
	static char texts[2][TEXT_MAX];
	char *text = texts[sandbox.list >= 0];
	struct apparmor found;

	if (apparmor_find(&found) && strcmp(found.mode, "enforce") == 0)
		snprintf(text, TEXT_MAX,
			 "; AppArmor's profile %s may forbid it, which the kernel's log would "
			 "tell: /etc/apparmor.d/local/%s can allow more",
			 found.profile, found.profile);
	if (sandbox.list >= 0)
		sandbox_append(
			text,
			"; the sandbox lets nbdloopd open only what its configuration named at the "
			"start: sandbox-path=DIR allows more");
	error_explain_denials(text[0] ? text : NULL);
}

static void
note_apparmor(void)
{
	struct apparmor found;

	if (apparmor_find(&found))
		note_part("apparmor %s (%s)", found.profile, found.mode);
}

/* ---- the parts */

/* Keys of TLS, or a token of HTTP, must not get into a file. Without privileges, nobody may look
 * into the process then, except root. */
static void
forbid_core_dumps(const struct server_config *config)
{
	const struct rlimit none = {0, 0};

	if (config_tls(config) == TLS_CHOICE_OFF && !config->http_token)
		return;
	if (SANITIZED) {
		note_missing("end of core dumps", "this build has a sanitizer");
		return;
	}
	if (setrlimit(RLIMIT_CORE, &none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
		note_part("no core dumps");
	else
		note_missing("end of core dumps", strerror(errno));
}

static void
confine_files(const struct server_config *config)
{
	int r = sandbox.version = landlock_version();

	if (r > 0)
		r = sandbox.list = landlock_new(sandbox.version);
	if (r >= 0)
		r = grants_visit_server(config, sandbox.config_file, note_grant, NULL);
	for (size_t i = 0; r == 0 && i < sandbox.count; i++)
		r = landlock_add(sandbox.list, sandbox.version, sandbox.grants[i].path,
				 sandbox.grants[i].use);
	if (r == 0)
		r = landlock_enter(sandbox.list);
	if (r == 0) {
		note_part("landlock %d", sandbox.version);
		sandbox_explain_denials();
		return;
	}
	if (sandbox.list >= 0)
		close(sandbox.list);
	sandbox.list = -1;
	note_missing("landlock", r == -ENOSYS       ? "it needs Linux 5.13"
				 : r == -EOPNOTSUPP ? "it is turned off (see lsm= of the kernel)"
						    : strerror(-r));
}

/* As after a call that a filter forbids: what clients got as flushed is on the disk, and the next
 * server finds all else as after a kill. */
static void
report_unconfined(int r)
{
	static struct log_limit once = LOG_LIMIT_INIT(1, UINT32_MAX);

	if (sandbox.required) {
		log_error(
			"sandbox=on: a thread can't be confined: %s: the server ends; sandbox=auto "
			"goes on without",
			strerror(-r));
		_exit(EXIT_FAILURE);
	}
	if (log_limit_pass(&once, NULL))
		log_warning("sandbox: a thread is not confined: %s", strerror(-r));
}

static void
confine_maker(void)
{
	int r = call_filter_enter(THREAD_RINGS);

	thread_set_name(THREAD_RINGS);
	if (r < 0)
		report_unconfined(r);
}

static void
filter_calls(const struct server_config *config)
{
	const char *reason;
	int r;

	if (SANITIZED) {
		note_missing("seccomp", "this build has a sanitizer, which makes calls of its own");
		return;
	}
	r = call_filters_make(config->log == LOG_TO_SYSLOG, &reason);
	if (r == 0) {
		/* It is not under the process's filter, which lets nobody make a ring. */
		reason = "the thread that makes io_uring's rings can't be started";
		r = restriction_start_maker(confine_maker);
	}
	if (r == 0)
		r = call_filter_enter(FILTER_PROCESS);
	sandbox.filters = r == 0;
	if (r == 0)
		note_part("seccomp");
	else
		note_missing("seccomp", reason);
}

static void
note_older_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	size_t count = 0;

	while (tasks && (entry = readdir(tasks)) != NULL && count < OLDER_MAX) {
		pid_t thread = (pid_t)atoi(entry->d_name);

		if (thread > 0 && thread != getpid())
			sandbox.older[count++] = thread;
	}
	if (tasks)
		closedir(tasks);
}

static bool
thread_is_older(pid_t thread)
{
	for (size_t i = 0; i < OLDER_MAX && sandbox.older[i]; i++) {
		if (sandbox.older[i] == thread)
			return true;
	}
	return false;
}

/* Threads that are older than the sandbox are confined as a whole, and others by what they do. */
static void
confine_thread(enum thread_kind kind)
{
	bool older = thread_is_older(gettid());
	int r = 0;

	/* Only a thread with the process's filter gets ENOSYS for a call that is in none of the
	 * lists. It has the number of an older one that has ended. */
	if (older && sandbox.filters && syscall(SYS_getpgid, 0) < 0 && errno == ENOSYS)
		older = false;
	if (older) {
		r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : capabilities_drop();
		if (r == 0 && sandbox.list >= 0)
			r = landlock_enter(sandbox.list);
		if (r == 0 && sandbox.filters)
			r = call_filter_enter(FILTER_PROCESS);
	}
	if (r == 0 && sandbox.filters)
		r = call_filter_enter(kind);
	if (r < 0)
		report_unconfined(r);
}

static void
enter_parts(const struct server_config *config)
{
	const char *preload = getenv("LD_PRELOAD");
	char why[128];
	int r;

	sandbox.text[0] = '\0';
	/* Valgrind replaces the program's allocator by a library of this name, makes calls of its
	 * own, and doesn't know Landlock. */
	if (preload && strstr(preload, "vgpreload_")) {
		note_missing("part", "valgrind runs the server");
		return;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		note_part("no new privileges");
	else
		note_missing("end of new privileges", strerror(errno));
	r = capabilities_drop();
	if (r == 0)
		note_part("no capabilities but those for files and locked memory");
	else
		note_missing("drop of capabilities", strerror(-r));
	forbid_core_dumps(config);
	if (sandbox.unconfined) {
		snprintf(why, sizeof(why), "%s, for %s, opens files and makes calls of its own",
			 sandbox.unconfined->library, sandbox.unconfined->one);
		note_missing("landlock and seccomp", why);
	} else {
		confine_files(config);
	}
	r = restriction_begin();
	if (r == -EINVAL)
		note_missing("ring restrictions", "they need Linux 5.10");
	else
		note_part(r == 0 ? "ring restrictions" : "no io_uring");
	if (!sandbox.unconfined)
		filter_calls(config);
	note_apparmor();
}

int
sandbox_enter(const struct server_config *config, char **error)
{
	if (config->sandbox == TRISTATE_OFF) {
		note_apparmor();
		return 0;
	}
	sandbox.required = config->sandbox == TRISTATE_ON;
	note_older_threads();
	enter_parts(config);
	if (config->sandbox == TRISTATE_ON && sandbox.missing[0])
		return error_set(error, -EOPNOTSUPP,
				 "sandbox=on: %s; sandbox=auto goes on with the parts that are "
				 "possible",
				 sandbox.missing);
	if (sandbox.missing[0])
		sandbox_append(sandbox.text, "%s%s", sandbox.text[0] ? "; " : "", sandbox.missing);
	thread_set_confinement(confine_thread);
	log_info("sandbox: %s", sandbox.text);
	if (geteuid() == 0)
		log_info("sandbox: weaker as root: whoever takes the server over can open all "
			 "users' files in the directories of its images, and use the sockets there "
			 "as root; --user prevents that");
	return 0;
}

void
sandbox_fini(void)
{
	for (size_t i = 0; i < sandbox.count; i++)
		free(sandbox.grants[i].path);
	free(steal_pointer(&sandbox.grants));
	sandbox.unconfined = NULL;
	if (sandbox.prepared)
		backing_release(steal_pointer(&sandbox.prepared));
	sandbox.count = 0;
	restriction_end_maker();
	call_filters_free();
}

/* ---- what it forbids */

/* Returns whether the path, without links, is in no grant of writing. */
static bool
is_outside(const char *path)
{
	for (size_t i = 0; i < sandbox.count; i++) {
		const char *granted = sandbox.grants[i].path;
		size_t length = strlen(granted);

		if (sandbox.grants[i].use >= GRANT_WRITE && strncmp(path, granted, length) == 0 &&
		    (path[length] == '/' || path[length] == '\0'))
			return false;
	}
	return true;
}

int
sandbox_admits(const char *path, char **error)
{
	const struct image_kind *kind = image_kind_of(path);
	char *CLEANUP_FREE real = NULL;

	if (sandbox.list < 0)
		return 0;
	if (kind->helper && kind == sandbox.prepared)
		return 0;
	if (kind->helper)
		return error_set(error, -EPERM,
				 "%s: the sandbox does not let nbdloopd start %s now: start the "
				 "server with %s in its configuration, or with sandbox=off",
				 path, kind->helper, kind->one);
	if (kind->library)
		return error_set(error, -EPERM,
				 "%s: the sandbox keeps %s out: start the server with %s in its "
				 "configuration, or with sandbox=off",
				 path, kind->library, kind->one);
	real = realpath(path, NULL);
	/* What isn't there is an error of its own. */
	if (!real || !is_outside(real))
		return 0;
	return error_set(error, -EACCES,
			 "%s: the sandbox lets nbdloopd open only what is in the directories that "
			 "its configuration named at the start: start the server with "
			 "sandbox-path=DIR, or with that directory in its configuration",
			 path);
}
