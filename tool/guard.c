/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard.h"

#include "tool/device.h"
#include "tool/failure.h"
#include "tool/guard_link.h"
#include "tool/server_link.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

enum {
	REPORT_FD = 3,
	RETRY_MS = 100,
	RETRY_MOST_MS = 2000,
	GONE_TRIES = 30,
	GONE_US = 10000,
};

struct guard {
	struct attachment attachment;
	struct source source;
	struct guard_link link;
	int signals; /* signalfd */
};

pid_t
guard_of(const char *control_path)
{
	int pid = 0, length = 0;

	if (sscanf(control_path, GUARD_DIRECTORY "/%d.sock%n", &pid, &length) != 1 || length == 0 || control_path[length])
		return 0;
	return pid;
}

/* ---- a server in place of one that is gone */

static bool
restore(struct guard *guard, GError **error)
{
	unsigned int count = guard->source.plan->connections;
	g_autofree bool *is_new = g_new(bool, count);

	for (unsigned int i = 0; i < count; i++)
		is_new[i] = guard->source.connections[i].fd < 0;
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
refuse_requests(const struct guard *guard, const GError *why, unsigned int milliseconds)
{
	const gint64 end = g_get_monotonic_time() + milliseconds * 1000;
	struct pollfd ready = {.fd = guard->link.path ? guard->link.fd : -1, .events = POLLIN};
	gint64 left;

	while ((left = end - g_get_monotonic_time()) > 0) {
		g_autofree char *request = NULL;
		g_autoptr(GError) error = NULL;
		int peer;

		poll(&ready, 1, (int)(left / 1000) + 1);
		request = ready.revents ? guard_link_take(&guard->link, &peer) : NULL;
		if (!request)
			continue;
		failure(&error, EAGAIN, "/dev/%s has no server just now, and it is being tried further: %s", guard->attachment.name,
			why->message);
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

		if (restore(guard, &error)) {
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

/* ---- what is asked */

/* Ends our server, and waits until it has ended. */
static void
end_server(struct guard *guard)
{
	g_autofree char *why = NULL;
	bool crashed;

	attachment_prepare_change(&guard->attachment);
	source_break(&guard->source);
	while (!source_is_lost(&guard->source, &crashed, &why))
		g_usleep(GONE_US);
}

/* What take_request() goes on with after an error. */
static bool
restore_once(struct guard *guard, GError **error)
{
	g_autoptr(GError) why = NULL;

	return restore(guard, &why) || failure(error, EIO, "/dev/%s has no new server yet, but it is being tried further: %s",
					       guard->attachment.name, why->message);
}

static bool
replace_server(struct guard *guard, GError **error)
{
	log_info("%s: a new server takes over", guard->attachment.name);
	end_server(guard);
	return restore_once(guard, error);
}

/* LOOP_CHANGE_FD's conditions: nobody could tell the difference, but by reading. */
static bool
image_fits(const struct guard *guard, struct source *trial, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read("/sys", guard->attachment.name, error);
	uint64_t size;

	if (!device)
		return false;
	if (!device->read_only)
		return failure(error, EINVAL, "/dev/%s can be written to, and only a read-only device can get another image: attach it "
			       "with --read-only", device->name);
	if (!source_open(trial, error))
		return false;
	size = trial->connections[0].size;
	size -= size % device->block_size;
	return size == device->size ||
	       failure(error, EINVAL, "%s would make a device of %" PRIu64 " bytes, and /dev/%s has %" PRIu64 ": only an image of "
		       "the same size can take the place of another", trial->place, size, device->name, device->size);
}

static bool
take_image(struct guard *guard, struct source *trial, GError **error)
{
	if (!image_fits(guard, trial, error))
		return false;
	log_info("%s: %s takes the place of %s", guard->attachment.name, trial->place, guard->source.place);
	source_end(trial);
	end_server(guard);
	source_swap_image(&guard->source, trial);
	if (restore(guard, error))
		return true;
	/* It was fine a moment ago; the device needs one that works. */
	source_swap_image(&guard->source, trial);
	return false;
}

static bool
change_image(struct guard *guard, const char *image, GError **error)
{
	struct source trial;
	bool taken;

	source_init_trial(&trial, &guard->source, image);
	taken = take_image(guard, &trial, error);
	source_fini(&trial);
	return taken;
}

static void
tell_loss(const struct guard *guard, const char *why)
{
	log_error("%s: %s; it is started again", guard->attachment.name, why);
}

/* The size as text, as all of a request is. */
static bool
resize(struct guard *guard, const char *text, GError **error)
{
	g_autofree char *why = NULL;
	bool crashed;
	guint64 size;

	if (!g_ascii_string_to_unsigned(text, 10, 1, G_MAXINT64, &size, error))
		return false;
	/* It may have died while this request waited. */
	if (source_is_lost(&guard->source, &crashed, &why)) {
		tell_loss(guard, why);
		if (!restore_once(guard, error))
			return false;
	}
	return attachment_resize(&guard->attachment, size, error);
}

/* What follows `verb` in a request, or NULL: it is another one. */
static const char *
operand(const char *request, const char *verb)
{
	return g_str_has_prefix(request, verb) ? request + strlen(verb) : NULL;
}

static void
carry_out(struct guard *guard, const char *request, GError **error)
{
	const char *image = operand(request, "image "), *size = operand(request, "resize ");

	/* It was possible, and is wherever it still will be: no reason for the next server not to start. */
	if (g_str_equal(request, "direct-io on"))
		guard->source.direct_io = g_str_equal(guard->source.plan->direct_io, "on") ? "on" : "auto";
	else if (g_str_equal(request, "direct-io off"))
		guard->source.direct_io = "off";
	else if (g_str_equal(request, "replace"))
		replace_server(guard, error);
	else if (image)
		change_image(guard, image, error);
	else if (size)
		resize(guard, size, error);
	else
		failure(error, EINVAL, "/dev/%s: its guard knows no request \"%s\": it is another version of nbdloop",
			guard->attachment.name, request);
}

static void
take_request(struct guard *guard)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *request;
	int peer;

	request = guard_link_take(&guard->link, &peer);
	if (!request)
		return;
	carry_out(guard, request, &error);
	guard_link_answer(peer, error);
	if (guard->source.server.pid == 0)
		restore_patiently(guard);
}

static void
take_signal(const struct guard *guard)
{
	struct signalfd_siginfo signal;

	if (read(guard->signals, &signal, sizeof(signal)) == sizeof(signal) && signal.ssi_signo != SIGCHLD &&
	    signal.ssi_signo != SIGPIPE)
		log_warning("%s is still attached: to end it, nbdloop detach /dev/%s", guard->attachment.name, guard->attachment.name);
}

/* ---- watching */

static void
wait_for_news(struct guard *guard)
{
	const struct source *source = &guard->source;
	unsigned int count = 3;
	g_autofree struct pollfd *fds = g_new0(struct pollfd, count + source->plan->connections);

	fds[0] = (struct pollfd){.fd = guard->signals, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = source->server.output, .events = POLLIN};
	fds[2] = (struct pollfd){.fd = guard->link.path ? guard->link.fd : -1, .events = POLLIN};
	for (unsigned int i = 0; i < source->plan->connections; i++)
		fds[count++] = (struct pollfd){.fd = source->connections[i].fd, .events = POLLRDHUP};
	poll(fds, count, -1);
	if (fds[0].revents)
		take_signal(guard);
	source_listen(&guard->source);
	if (fds[2].revents)
		take_request(guard);
}

static void
watch(struct guard *guard)
{
	while (attachment_is_there(&guard->attachment)) {
		g_autofree char *why = NULL;
		bool crashed = false;

		wait_for_news(guard);
		if (!source_is_lost(&guard->source, &crashed, &why))
			continue;
		/* When a device is detached, its connections end a moment before the kernel lets go. */
		for (unsigned int i = 0; !crashed && i < GONE_TRIES && attachment_is_there(&guard->attachment); i++)
			g_usleep(GONE_US);
		if (attachment_is_there(&guard->attachment))
			tell_loss(guard, why);
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
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) || sigismember(&pending, SIGHUP);
}

/* For a device that is swapped to: nothing of the guard may have to come back from there, or it could not start a server
 * again.  What it starts inherits the adjustment. */
static bool
stay_in_memory(GError **error)
{
	int CLEANUP_CLOSE fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) < 0)
		return failure(error, errno, "--swap: the out-of-memory killer can't be kept away: %s", g_strerror(errno));
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		return failure(error, errno, "--swap: memory can't be locked: %s", g_strerror(errno));
	return true;
}

/* Attaches the device, and tells the name to who waits for it. */
static bool
begin(struct guard *guard, GError **error)
{
	static const int all[] = {SIGCHLD, SIGPIPE, SIGHUP, SIGTERM, SIGINT};
	sigset_t set;

	if (g_mkdir_with_parents(GUARD_DIRECTORY, 0700) < 0)
		return failure(error, errno, "the directory %s can't be made: %s", GUARD_DIRECTORY, g_strerror(errno));
	if (guard->source.control && !guard_link_listen(&guard->link, guard->source.control, error))
		return false;
	if (!source_open(&guard->source, error))
		return false;
	/* From here on there is something to put away. */
	block_signals(all, G_N_ELEMENTS(all), &set);
	guard->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (guard->signals < 0)
		return failure(error, errno, "no signals: %s", g_strerror(errno));
	if (!attachment_make(&guard->attachment, &guard->source, error))
		return false;
	source_release(&guard->source);
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

static int
run(const struct guard_plan *plan)
{
	char *control = plan->source.remote ? NULL : g_strdup_printf(GUARD_DIRECTORY "/%d.sock", (int)getpid());
	struct guard guard = {.link.fd = -1, .signals = -1};
	g_autoptr(GError) error = NULL;
	bool attached;

	/* Inherited by the server: no memory that they need waits until something is written to their own device. */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	source_init(&guard.source, &plan->source, control);
	attached = attachment_init(&guard.attachment, &plan->attachment,
				   control ? server_link_backend(control) : g_strdup(plan->source.place), &error) &&
		(!plan->swap || stay_in_memory(&error)) && begin(&guard, &error);
	if (error)
		log_error("%s", error->message);
	attached = attached && report(&guard);
	if (attached)
		watch(&guard);
	else
		attachment_undo(&guard.attachment);
	guard_link_close(&guard.link);
	source_fini(&guard.source);
	attachment_fini(&guard.attachment);
	return attached ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* In the new process: nothing of the caller's is kept open, such as the lock file of a script. */
static void
become_guard(int report)
{
	static const int early[] = {SIGCHLD, SIGPIPE};
	sigset_t set;

	/* With this mark systemd-shutdown doesn't kill it, and can unmount what is still on the device:
	 * https://systemd.io/ROOT_STORAGE_DAEMONS */
	program_invocation_name[0] = '@';
	if (report != REPORT_FD)
		dup2(report, REPORT_FD);
	fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC);
	close_range(REPORT_FD + 1, ~0U, 0);
	block_signals(early, G_N_ELEMENTS(early), &set);
}

bool
guard_start(const struct guard_plan *plan, char **name)
{
	g_autoptr(GString) said = g_string_new(NULL);
	char bytes[256];
	int report[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("no process for the device: %s", g_strerror(errno));
		return false;
	}
	if (pid == 0) {
		become_guard(report[1]);
		_exit(run(plan));
	}
	close(report[1]);
	while ((n = read(report[0], bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
		g_string_append_len(said, bytes, MAX(n, 0));
	close(report[0]);
	if (said->len == 0) {
		waitpid(pid, NULL, 0);
		return false;
	}
	*name = g_strdup(g_strchomp(said->str));
	return true;
}
