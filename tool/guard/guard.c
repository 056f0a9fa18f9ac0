/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard.h"

#include "tool/device/device.h"
#include "tool/failure.h"
#include "tool/guard/guard_state.h"
#include "tool/guard/settling.h"
#include "tool/server/server_link.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

enum {
	REPORT_FD = 3,
	RETRY_MS = 100,
	RETRY_MOST_MS = 2000,
	LOOK_MS = 1000,   /* at connections that can't be seen */
	START_TRIES = 10, /* each is another process: see guard_record_make() */
	GONE_TRIES = 30,
	GONE_US = 10000,
};

pid_t
guard_of(const char *control_path)
{
	int pid = 0, length = 0;

	if (sscanf(control_path, GUARD_DIRECTORY "/%d.sock%n", &pid, &length) != 1 || length == 0 ||
	    control_path[length])
		return 0;
	return pid;
}

/* ---- a server in place of one that is gone */

bool
guard_note(struct guard *guard, GError **error)
{
	const struct source *source = &guard->source;
	struct guard_progress progress = {
		.place = source->place,
		.direct_io = source->direct_io ? source->direct_io : "auto",
		.read_only = source->read_only,
	};
	struct stat st;

	if (source->image >= 0 && fstat(source->image, &st) == 0) {
		progress.device = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
		progress.inode = S_ISBLK(st.st_mode) ? 0 : st.st_ino;
	}
	return guard_record_write(&guard->record, guard->plan, &progress, error);
}

bool
guard_restore(struct guard *guard, GError **error)
{
	unsigned int count = guard->source.plan->connections;
	g_autofree bool *is_new = g_new(bool, count);

	for (unsigned int i = 0; i < count; i++)
		is_new[i] = source_lacks(&guard->source, i);
	if (!source_open(&guard->source, error))
		return false;
	if (!attachment_hand_over(&guard->attachment, &guard->source, is_new, error)) {
		source_drop(&guard->source, is_new);
		return false;
	}
	source_release(&guard->source);
	return true;
}

static void
wait_until_gone(const struct guard *guard)
{
	while (attachment_is_there(&guard->attachment))
		g_usleep(RETRY_MS * 1000);
}

/* What is asked meanwhile is answered, but nothing can be done. */
static void
refuse_requests(struct guard *guard, const GError *why, unsigned int milliseconds)
{
	const gint64 end = g_get_monotonic_time() + milliseconds * 1000;
	gint64 left;

	while ((left = end - g_get_monotonic_time()) > 0) {
		g_autofree char *request = NULL;
		g_autoptr(GError) error = NULL;
		int peer, timeout = (int)(left / 1000) + 1;
		struct pollfd ready = guard_link_polled(&guard->link, &timeout);

		poll(&ready, 1, timeout);
		request = ready.revents ? guard_link_take(&guard->link, &peer) : NULL;
		if (!request)
			continue;
		failure(&error, EAGAIN,
			"/dev/%s has no server just now, and it is being tried further: %s",
			guard->attachment.name, why->message);
		guard_link_answer(peer, error);
	}
}

/* Goes on until the device works again or is detached. */
static void
restore_patiently(struct guard *guard)
{
	unsigned int pause = RETRY_MS;
	g_autofree char *said = NULL;

	while (attachment_is_there(&guard->attachment)) {
		g_autoptr(GError) error = NULL;

		if (guard_restore(guard, &error)) {
			log_info("%s: served again", guard->attachment.name);
			return;
		}
		if (failure_is(error, EINVAL)) {
			/* It is being detached, as soon as the last who has it open closes it. */
			wait_until_gone(guard);
			return;
		}
		if (g_strcmp0(said, error->message) != 0)
			log_error("%s: %s; trying again", guard->attachment.name, error->message);
		g_free(said);
		said = g_strdup(error->message);
		refuse_requests(guard, error, pause);
		pause = MIN(2 * pause, RETRY_MOST_MS);
	}
}

static void
take_signal(const struct guard *guard)
{
	struct signalfd_siginfo signal;

	if (read(guard->signals, &signal, sizeof(signal)) == sizeof(signal) &&
	    signal.ssi_signo != SIGCHLD && signal.ssi_signo != SIGPIPE)
		log_warning("%s is still attached: to end it, nbdloop detach /dev/%s",
			    guard->attachment.name, guard->attachment.name);
}

/* ---- watching */

static void
wait_for_news(struct guard *guard)
{
	const struct source *source = &guard->source;
	int timeout = source_unseen(source) > 0 ? LOOK_MS : -1;
	unsigned int count = 3;
	g_autofree struct pollfd *fds = g_new0(struct pollfd, count + source->plan->connections);

	fds[0] = (struct pollfd){.fd = guard->signals, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = source->server.output, .events = POLLIN};
	fds[2] = guard_link_polled(&guard->link, &timeout);
	for (unsigned int i = 0; i < source->plan->connections; i++)
		fds[count++] =
			(struct pollfd){.fd = source->connections[i].fd, .events = POLLRDHUP};
	poll(fds, count, timeout);
	if (fds[0].revents)
		take_signal(guard);
	source_listen(&guard->source);
	if (fds[2].revents)
		guard_take_request(guard);
	if (fds[2].revents && guard->source.server.pid == 0)
		restore_patiently(guard);
}

void
guard_tell_loss(const struct guard *guard, const char *why)
{
	log_error("%s: %s; it is started again", guard->attachment.name, why);
}

static void
watch(struct guard *guard)
{
	while (attachment_is_there(&guard->attachment)) {
		g_autofree char *why = NULL;
		bool crashed = false;

		wait_for_news(guard);
		guard_look_at_unseen(guard);
		if (!source_is_lost(&guard->source, &crashed, &why))
			continue;
		/* When a device is detached, its connections end a moment before the kernel lets
		 * go. */
		for (unsigned int i = 0;
		     !crashed && i < GONE_TRIES && attachment_is_there(&guard->attachment); i++)
			g_usleep(GONE_US);
		if (attachment_is_there(&guard->attachment))
			guard_tell_loss(guard, why);
		restore_patiently(guard);
	}
}

/* ---- the process */

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

/* From here on it belongs to no terminal and holds nobody's files. */
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

/* What would have ended the program, had it not been blocked. */
static bool
was_interrupted(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP);
}

bool
guard_stay_in_memory(GError **error)
{
	int CLEANUP_CLOSE fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) < 0)
		return failure(error, errno,
			       "--swap: the out-of-memory killer can't be kept away: %s",
			       g_strerror(errno));
#ifdef __GLIBC__
	/* A thread's own heap would be 64 MiB more. */
	mallopt(M_ARENA_MAX, 1);
#endif
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		return failure(error, errno, "--swap: memory can't be locked: %s",
			       g_strerror(errno));
	/* The kernel keeps some of the last memory for such threads. */
	if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) < 0)
		log_warning(
			"--swap: no real-time priority: %s; when memory is short, the device may stand still",
			g_strerror(errno));
	return true;
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

/* The server may die while the kernel looks for partitions: it is started again as ever, or that
 * would wait for one in vain. */
static bool
settle(struct guard *guard, GError **error)
{
	struct settling settling;
	bool lost = false;

	if (!settling_begin(&settling, &guard->attachment, error))
		return false;
	while (!settling_wait(&settling, RETRY_MS)) {
		g_autofree char *why = NULL;
		g_autoptr(GError) not_yet = NULL;
		bool crashed;

		source_listen(&guard->source);
		if (!lost && source_is_lost(&guard->source, &crashed, &why)) {
			guard_tell_loss(guard, why);
			lost = true;
		}
		/* EINVAL: it is being detached. */
		if (lost && (guard_restore(guard, &not_yet) || failure_is(not_yet, EINVAL)))
			lost = false;
	}
	if (!settling_end(&settling, error))
		return false;
	if (lost)
		restore_patiently(guard);
	return true;
}

/* Attaches the device, and tells the name to who waits for it. */
static bool
begin(struct guard *guard, GError **error)
{
	if (g_mkdir_with_parents(GUARD_DIRECTORY, 0700) < 0)
		return failure(error, errno, "the directory %s can't be made: %s", GUARD_DIRECTORY,
			       g_strerror(errno));
	if (!guard_record_make(&guard->record, guard->source.control, error))
		return false;
	if (guard->source.control && !guard_link_listen(&guard->link, guard->source.control, error))
		return false;
	/* From here on there is something to put away. */
	if (!source_open(&guard->source, error) || !guard_note(guard, error) ||
	    !take_signals(guard, error))
		return false;
	if (!attachment_make(&guard->attachment, &guard->source, error))
		return false;
	source_release(&guard->source);
	if (!settle(guard, error))
		return false;
	if (was_interrupted())
		return failure(error, EINTR, "interrupted");
	return true;
}

/* From here on the device is there to stay, if somebody still wants it. */
static bool
report(struct guard *guard)
{
	leave_terminal();
	if (dprintf(REPORT_FD, "%s\n", guard->attachment.name) < 0) {
		log_warning("/dev/%s: nobody waits for it any more", guard->attachment.name);
		return false;
	}
	close(REPORT_FD);
	return true;
}

/* "17 TEXT", where a name of a device would be. */
static void
report_error(const GError *error)
{
	dprintf(REPORT_FD, "%d %s\n", error->domain == FAILURE ? error->code : EIO, error->message);
}

static int
run(const struct guard_plan *plan)
{
	char *control = plan->source.remote
				? NULL
				: g_strdup_printf(GUARD_DIRECTORY "/%d.sock", (int)getpid());
	struct guard guard = {.plan = plan, .link.fd = -1, .record.fd = -1, .signals = -1};
	g_autoptr(GError) error = NULL;
	bool attached;

	/* Inherited by the server: no memory that they need waits until something is written to
	 * their own device. */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	source_init(&guard.source, &plan->source, control);
	attached = attachment_init(&guard.attachment, &plan->attachment,
				   control ? server_link_backend(control)
					   : g_strdup(plan->source.place),
				   &error) &&
		   (!plan->attachment.swap || guard_stay_in_memory(&error)) &&
		   begin(&guard, &error);
	if (error)
		report_error(error);
	attached = attached && report(&guard);
	if (attached)
		watch(&guard);
	else
		attachment_undo(&guard.attachment);
	guard_link_close(&guard.link);
	guard_record_close(&guard.record);
	source_fini(&guard.source);
	attachment_fini(&guard.attachment);
	return attached ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- in place of one that was killed */

/* From here on the device has a guard again, which doesn't give up. */
static void
go_on(struct guard *guard)
{
	g_autoptr(GError) error = NULL, why = NULL;

	guard_look_at_unseen(guard);
	if (guard_restore(guard, &why)) {
		report(guard);
	} else {
		failure(&error, EIO,
			"/dev/%s has a guard again, but no new %s yet; it is being tried further: %s",
			guard->attachment.name,
			guard->plan->source.remote ? "connection" : "server", why->message);
		report_error(error);
		leave_terminal();
		close(REPORT_FD);
		restore_patiently(guard);
	}
	watch(guard);
	guard_record_close(&guard->record);
}

static int
run_adopted(const struct device *device)
{
	struct guard guard = {.link.fd = -1, .record.fd = -1, .signals = -1};
	struct guard_progress progress = {.place = NULL};
	struct guard_plan plan = {.source.place = NULL};
	g_autoptr(GError) error = NULL;
	bool adopted;

	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	adopted = take_signals(&guard, &error) &&
		  guard_take_over(&guard, device, &plan, &progress, &error);
	if (adopted)
		go_on(&guard);
	else
		report_error(error);
	guard_link_close(&guard.link);
	guard_record_leave(&guard.record);
	if (guard.plan) {
		source_fini(&guard.source);
		attachment_fini(&guard.attachment);
	}
	guard_record_forget_plan(&plan, &progress);
	return adopted ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- starting one */

/* In the new process: nothing of the caller's is kept open, such as the lock file of a script. */
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

/* What the new process has said. */
static bool
take_report(const char *text, char **name, GError **error)
{
	char *words;
	long err = strtol(text, &words, 10);

	if (words != text)
		return failure(error, (int)err, "%s", g_strchug(words));
	if (!*text)
		return failure(error, EPIPE, "the process for the device has died");
	*name = g_strdup(text);
	return true;
}

static pid_t
start(const struct guard_plan *plan, const struct device *adopted, char **name, GError **error)
{
	g_autoptr(GString) said = g_string_new(NULL);
	char bytes[256];
	int report[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		failure(error, errno, "no process for the device: %s", g_strerror(errno));
		return 0;
	}
	if (pid == 0) {
		become_guard(report[1]);
		_exit(plan ? run(plan) : run_adopted(adopted));
	}
	close(report[1]);
	while ((n = read(report[0], bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
		g_string_append_len(said, bytes, MAX(n, 0));
	close(report[0]);
	take_report(g_strchomp(said->str), name, error);
	return pid;
}

bool
guard_start(const struct guard_plan *plan, char **name, GError **error)
{
	pid_t pid;

	for (unsigned int i = 0;; i++) {
		g_autoptr(GError) why = NULL;

		*name = NULL;
		pid = start(plan, NULL, name, &why);
		if (*name)
			return true;
		if (pid)
			waitpid(pid, NULL, 0);
		if (!failure_is(why, EEXIST) || i == START_TRIES) {
			g_propagate_error(error, g_steal_pointer(&why));
			return false;
		}
	}
}

bool
guard_adopt(const char *name, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read("/sys", name, error);
	g_autofree char *done = NULL;

	if (device)
		start(NULL, device, &done, error);
	return done != NULL;
}
