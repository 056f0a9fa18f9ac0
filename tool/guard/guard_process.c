/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_process.h"

#include "tool/failure.h"
#include "tool/guard/guard_files.h"
#include "tool/guard/guard_memory.h"
#include "tool/guard/guard_report.h"
#include "tool/guard/guard_take_over.h"
#include "tool/guard/guard_watch.h"
#include "tool/server/server_link.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

static void
to_syslog(enum log_level level, const char *text)
{
	static const int priorities[] = {
		[LOG_LEVEL_ERROR] = LOG_ERR,
		[LOG_LEVEL_WARNING] = LOG_WARNING,
		[LOG_LEVEL_INFO] = LOG_INFO,
		[LOG_LEVEL_DEBUG] = LOG_DEBUG,
	};

	syslog(priorities[level], "%s", text);
}

/* Leaves the terminal and the caller's files; from here on, messages go to syslog. */
static void
leave_terminal(void)
{
	int CLEANUP_CLOSE null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	if (chdir("/") < 0 || null < 0)
		return;
	for (int fd = 0; fd <= 2; fd++)
		dup2(null, fd);
	openlog("nbdloop", LOG_PID, LOG_DAEMON);
	log_set_sink(to_syslog);
}

static void
block_signals(const int *signals, size_t count, sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < count; i++)
		sigaddset(set, signals[i]);
	sigprocmask(SIG_BLOCK, set, NULL);
}

/* Whether a signal is pending that would have ended the program if it were not blocked. */
static bool
was_interrupted(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP);
}

static bool
take_signals(struct guard *guard, GError **error)
{
	static const int all[] = {SIGCHLD, SIGPIPE, SIGHUP, SIGTERM, SIGINT};
	sigset_t set;

	block_signals(all, G_N_ELEMENTS(all), &set);
	guard->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return guard->signals >= 0 || failure(error, errno, "no signals: %s", g_strerror(errno));
}

void
guard_process_init(int report)
{
	static const int early[] = {SIGCHLD, SIGPIPE};
	sigset_t set;

	/* With this mark systemd-shutdown doesn't kill it, and can unmount what is still on the
	 * device: https://systemd.io/ROOT_STORAGE_DAEMONS */
	program_invocation_name[0] = '@';
	if (report != GUARD_REPORT_FD)
		dup2(report, GUARD_REPORT_FD);
	fcntl(GUARD_REPORT_FD, F_SETFD, FD_CLOEXEC);
	close_range(GUARD_REPORT_FD + 1, ~0U, 0);
	block_signals(early, G_N_ELEMENTS(early), &set);
}

/* ---- a new device */

/* Attaches the device and makes it ready for use. */
static bool
begin(struct guard *guard, GError **error)
{
	if (g_mkdir_with_parents(GUARD_DIRECTORY, 0700) < 0)
		return failure(error, errno, "the directory %s can't be made: %s", GUARD_DIRECTORY,
			       g_strerror(errno));
	if (!guard_record_make(&guard->record, guard->upstream.control, error))
		return false;
	if (guard->upstream.control &&
	    !guard_link_listen(&guard->link, guard->upstream.control, error))
		return false;
	/* From here on there is something to put away. */
	if (!upstream_open(&guard->upstream, error) || !guard_write_record(guard, error) ||
	    !take_signals(guard, error))
		return false;
	if (!attachment_make(&guard->attachment, &guard->upstream, error))
		return false;
	upstream_release(&guard->upstream);
	if (!guard_watch_settle(guard, error))
		return false;
	if (was_interrupted())
		return failure(error, EINTR, "interrupted");
	return true;
}

/* Reports the device to the process that started the guard.  If that process has ended, no user
 * waits for the device, and it is detached again. */
static bool
report(struct guard *guard)
{
	leave_terminal();
	if (guard_report_name(guard->attachment.name))
		return true;
	log_warning("/dev/%s: the process that asked for it has ended", guard->attachment.name);
	return false;
}

int
guard_process_run(const struct guard_plan *plan)
{
	char *control = plan->upstream.remote ? NULL : guard_files_path(NULL, getpid(), "sock");
	struct guard guard = {.plan = plan, .link.fd = -1, .record.fd = -1, .signals = -1};
	g_autoptr(GError) error = NULL;
	bool attached;

	/* Inherited by the server: no memory that they need waits until something is written to
	 * their own device. */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	upstream_init(&guard.upstream, &plan->upstream, control);
	attached = attachment_init(&guard.attachment, &plan->attachment,
				   control ? server_link_backend(control)
					   : g_strdup(plan->upstream.place),
				   &error) &&
		   (!plan->attachment.swap || guard_memory_lock(&error)) && begin(&guard, &error);
	if (error)
		guard_report_error(error);
	attached = attached && report(&guard);
	if (attached)
		guard_watch(&guard);
	else
		attachment_undo(&guard.attachment);
	guard_link_close(&guard.link);
	guard_record_close(&guard.record);
	upstream_fini(&guard.upstream);
	attachment_fini(&guard.attachment);
	return attached ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- in place of one that was killed */

/* From here on the device has a guard again, which doesn't give up. */
static void
go_on(struct guard *guard)
{
	g_autoptr(GError) error = NULL, why = NULL;

	guard_probe_unseen(guard);
	if (guard_restore(guard, &why)) {
		report(guard);
	} else {
		failure(&error, EIO,
			"/dev/%s has a guard again, but no new %s yet; it is being tried further: %s",
			guard->attachment.name,
			guard->plan->upstream.remote ? "connection" : "server", why->message);
		guard_report_error(error);
		leave_terminal();
		close(GUARD_REPORT_FD);
		guard_watch_restore(guard);
	}
	guard_watch(guard);
	guard_record_close(&guard->record);
}

int
guard_process_run_adopted(const struct device *device)
{
	struct guard guard = {.link.fd = -1, .record.fd = -1, .signals = -1};
	struct guard_progress progress = {.place = NULL};
	struct guard_plan plan = {.upstream.place = NULL};
	g_autoptr(GError) error = NULL;
	bool adopted;

	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	adopted = take_signals(&guard, &error) &&
		  guard_take_over(&guard, device, &plan, &progress, &error);
	if (adopted)
		go_on(&guard);
	else
		guard_report_error(error);
	guard_link_close(&guard.link);
	guard_record_leave(&guard.record);
	if (guard.plan) {
		upstream_fini(&guard.upstream);
		attachment_fini(&guard.attachment);
	}
	guard_plan_fini(&plan);
	guard_progress_fini(&progress);
	return adopted ? EXIT_SUCCESS : EXIT_FAILURE;
}
