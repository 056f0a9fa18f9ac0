/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard.h"

#include "tool/device/device.h"
#include "tool/failure.h"
#include "tool/source/background.h"
#include "tool/guard/guard_files.h"
#include "tool/guard/guard_take_over.h"
#include "tool/guard/guard_watch.h"
#include "tool/link/server_link.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	REPORT_FD = 3,    /* the guard's end of the pipe to the process that started it */
	START_TRIES = 10, /* each in a new process: see guard_record_make() */
};

/* ---- the one message of a new guard to the process that started it: its device, or an error */

/* "17 TEXT", in place of the name of a device. */
static void
report_error(const GError *error)
{
	dprintf(REPORT_FD, "%d %s\n", error->domain == FAILURE ? error->code : EIO, error->message);
}

/* Reads until the guard closes its end.  Returns the name, which the caller frees; NULL with the
 * guard's error, or EPIPE: the guard has died. */
static char *
report_read(int fd, GError **error)
{
	g_autoptr(GString) said = g_string_new(NULL);
	char bytes[256], *words;
	ssize_t n;
	long err;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
		g_string_append_len(said, bytes, MAX(n, 0));
	g_strchomp(said->str);
	if (g_ascii_isalpha(*said->str))
		return g_strdup(said->str);
	err = strtol(said->str, &words, 10);
	if (words != said->str)
		failure(error, (int)err, "%s", g_strchug(words));
	else
		failure(error, EPIPE,
			"the guard of the device died before the device was ready: journalctl -t nbdloop may say why");
	return NULL;
}

/* ---- the process of a guard */

static void
block_signals(const int *signals, size_t count, sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < count; i++)
		sigaddset(set, signals[i]);
	sigprocmask(SIG_BLOCK, set, NULL);
}

static bool
take_signals(struct guard *guard, GError **error)
{
	static const int all[] = {SIGCHLD, SIGPIPE, SIGHUP, SIGTERM, SIGINT};
	sigset_t set;

	block_signals(all, G_N_ELEMENTS(all), &set);
	guard->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return guard->signals >= 0 || failure_errno(error, errno, "signals can't be received");
}

/* Makes a guard of this process, which was just forked: nothing of the caller's is kept open, such
 * as the lock file of a script. */
static void
become_guard(int report)
{
	static const int early[] = {SIGCHLD, SIGPIPE};
	sigset_t set;

	/* With this mark systemd-shutdown doesn't kill it, and can unmount what is still on the
	 * device: https://systemd.io/ROOT_STORAGE_DAEMONS */
	program_invocation_name[0] = '@';
	if (report != REPORT_FD)
		dup2(report, REPORT_FD);
	fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
	close_range(REPORT_FD + 1, ~0U, 0);
	block_signals(early, G_N_ELEMENTS(early), &set);
}

/* ---- a new device */

static bool
attach_device(struct guard *guard, GError **error)
{
	sigset_t pending;

	if (g_mkdir_with_parents(GUARD_DIRECTORY, 0700) < 0)
		return failure_errno(error, errno, "the directory %s can't be made",
				     GUARD_DIRECTORY);
	if (!guard_record_make(&guard->record, guard->source.control, error))
		return false;
	if (guard->source.control && !guard_link_listen(&guard->link, guard->source.control, error))
		return false;
	/* From here on, a failure has something to clean up. */
	if (!source_open(&guard->source, error) || !guard_write_record(guard, error) ||
	    !take_signals(guard, error))
		return false;
	if (!attachment_make(&guard->attachment, &guard->source, error))
		return false;
	source_release(&guard->source);
	if (!guard_watch_settle(guard, error))
		return false;
	/* By a signal that would have ended the program if it were not blocked. */
	sigpending(&pending);
	return (!sigismember(&pending, SIGINT) && !sigismember(&pending, SIGTERM) &&
		!sigismember(&pending, SIGHUP)) ||
	       failure(error, EINTR, "interrupted");
}

/* Reports the device to the process that started the guard.  If that process has ended, no user
 * waits for the device, and it is detached again. */
static bool
report_device(struct guard *guard)
{
	background_enter();
	if (dprintf(REPORT_FD, "%s\n", guard->attachment.name) >= 0) {
		close(REPORT_FD);
		return true;
	}
	log_warning("/dev/%s: the process that asked for it has ended", guard->attachment.name);
	return false;
}

/* Attaches a device and guards it until it is detached.  Returns an exit status. */
static int
guard_new_device(const struct guard_plan *plan)
{
	char *control = plan->source.remote ? NULL : guard_files_path(NULL, getpid(), "sock");
	struct guard guard = {
		.plan = plan, .link.fd = -1, .record.fd = -1, .signals = -1, .looking = -1};
	g_autoptr(GError) error = NULL;
	bool attached;

	/* The server inherits this: no allocation in the guard or the server waits for a write to
	 * their own device. */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	source_init(&guard.source, &plan->source, control,
		    control ? guard_files_path(control, 0, "nbd") : NULL);
	attached = attachment_init(&guard.attachment, &plan->attachment,
				   control ? server_link_backend(control)
					   : g_strdup(plan->source.place),
				   &error) &&
		   (!plan->attachment.swap || guard_lock_memory(&error)) &&
		   attach_device(&guard, &error);
	if (error)
		report_error(error);
	attached = attached && report_device(&guard);
	if (attached) {
		guard_look_at_others(&guard);
		guard_watch(&guard);
	} else {
		attachment_undo(&guard.attachment);
	}
	guard_link_close(&guard.link);
	guard_record_close(&guard.record);
	source_fini(&guard.source);
	attachment_fini(&guard.attachment);
	return attached ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- in the place of a guard that was killed */

/* From here on the device has a guard again, which doesn't give up. */
static void
guard_adopted(struct guard *guard)
{
	g_autoptr(GError) error = NULL, why = NULL;

	guard_probe_unseen(guard);
	if (guard_restore(guard, &why)) {
		report_device(guard);
	} else {
		if (source_is_fenced(&guard->source) || failure_is(why, EINVAL))
			error = g_error_copy(why);
		else
			failure(&error, EIO,
				"/dev/%s has a guard again, but no new %s yet; the guard keeps trying: %s",
				guard->attachment.name, guard->source.kind->noun, why->message);
		report_error(error);
		background_enter();
		close(REPORT_FD);
		guard_watch_restore(guard);
	}
	guard_watch(guard);
	guard_record_close(&guard->record);
}

/* The same in the place of a guard that was killed. */
static int
guard_adopted_device(const struct device *device)
{
	struct guard guard = {.link.fd = -1, .record.fd = -1, .signals = -1, .looking = -1};
	struct guard_progress progress = {.place = NULL};
	/* A thread that looks at other servers may read it until the process ends. */
	static struct guard_plan plan;
	g_autoptr(GError) error = NULL;
	bool adopted;

	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	adopted = take_signals(&guard, &error) &&
		  guard_take_over(&guard, device, &plan, &progress, &error);
	if (adopted)
		guard_adopted(&guard);
	else
		report_error(error);
	guard_link_close(&guard.link);
	guard_record_leave(&guard.record);
	if (guard.plan) {
		source_fini(&guard.source);
		attachment_fini(&guard.attachment);
	}
	guard_progress_fini(&progress);
	return adopted ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- starting one */

static pid_t
start_guard_process(const struct guard_plan *plan, const struct device *adopted, char **name,
		    GError **error)
{
	int report[2];
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		failure_errno(error, errno, "a process for the device can't be started");
		return 0;
	}
	if (pid == 0) {
		become_guard(report[1]);
		_exit(plan ? guard_new_device(plan) : guard_adopted_device(adopted));
	}
	close(report[1]);
	*name = report_read(report[0], error);
	close(report[0]);
	return pid;
}

bool
guard_start(const struct guard_plan *plan, char **name, GError **error)
{
	pid_t pid;

	for (unsigned int i = 0;; i++) {
		g_autoptr(GError) why = NULL;

		*name = NULL;
		pid = start_guard_process(plan, NULL, name, &why);
		if (*name)
			return true;
		if (pid)
			waitpid(pid, NULL, 0);
		if (!failure_is(why, EEXIST) || i == START_TRIES)
			return failure_pass(error, &why);
	}
}

bool
guard_adopt(const char *name, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read(name, error);
	g_autofree char *done = NULL;

	if (device)
		start_guard_process(NULL, device, &done, error);
	return done != NULL;
}
