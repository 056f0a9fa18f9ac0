/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_watch.h"

#include "common/log.h"
#include "tool/device/device.h"
#include "tool/failure.h"
#include "tool/guard/guard_state.h"
#include "tool/guard/guard_take_over.h"
#include "tool/nap.h"
#include "tool/source/image_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	STACK = 256 << 10, /* bytes; with --swap, all of it is locked memory */
	RETRY_MS = 100,
	RETRY_MOST_MS = 2000,
	LOOK_MS = 1000, /* between probes of connections that only the kernel sees */
	GONE_MS = 300,
	END_US = 10000,
	SILENCE_MS = 5000,
};

/* ---- the guard's own time limit for a remote server that answers nothing, where the kernel has
 * none (tool/guard/silence.h): struct source_plan's .silence */

/* Looks.  The connection of a silent server is lost soon afterwards. */
static void
guard_silence_look(struct guard *guard)
{
	const unsigned int seconds = guard->plan->source.silence;

	if (seconds == 0 || !silence_lasts(&guard->silence, guard->attachment.name, seconds,
					   g_get_monotonic_time()))
		return;
	log_error("%s: its server has answered no request for %u seconds", guard->attachment.name,
		  seconds);
	attachment_end_connection(&guard->attachment, seconds);
	guard->silence = (struct silence){.since = 0};
}

/* ---- the device and its server */

static void
wait_until_gone(const struct guard *guard)
{
	while (attachment_is_there(&guard->attachment))
		g_usleep(RETRY_MS * 1000);
}

/* Its requests fail, as those of the kernel's own devices of Ceph do when they are fenced: repeated
 * by another server, they would land on what the other client has written since. */
static void
end_device(struct guard *guard, const GError *why)
{
	log_error("%s: %s", guard->attachment.name, why->message);
	attachment_undo(&guard->attachment);
	wait_until_gone(guard);
}

/* Refuses requests for that long. */
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
			"/dev/%s has no server just now, and the guard keeps trying: %s",
			guard->attachment.name, why->message);
		guard_link_answer(peer, error);
	}
}

void
guard_watch_restore(struct guard *guard)
{
	unsigned int pause = RETRY_MS;
	g_autofree char *said = NULL;

	while (attachment_is_there(&guard->attachment)) {
		g_autoptr(GError) error = NULL;

		if (guard_restore(guard, &error)) {
			guard_log_return(guard);
			guard_look_at_others(guard);
			return;
		}
		if (source_is_fenced(&guard->source)) {
			end_device(guard, error);
			return;
		}
		if (failure_is(error, EINVAL)) {
			/* The device will be detached as soon as its last user closes it. */
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

/* ---- making a new device ready, in a thread of its own */

struct settling {
	const struct attachment *attachment;
	pthread_t thread;
	int fd;        /* a pipe's end, which hangs up when the thread has done its work */
	int thread_fd; /* the other end, the thread's */
	GError *error; /* the thread's until then */
};

static void *
settle_attachment(void *data)
{
	struct settling *settling = data;

	attachment_settle(settling->attachment, &settling->error);
	close(settling->thread_fd);
	return NULL;
}

static bool
settling_begin(struct settling *settling, const struct attachment *attachment, GError **error)
{
	pthread_attr_t attributes;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return failure_errno(error, errno, "a pipe can't be made");
	*settling =
		(struct settling){.attachment = attachment, .fd = ends[0], .thread_fd = ends[1]};
	err = pthread_attr_init(&attributes);
	if (err == 0) {
		pthread_attr_setstacksize(&attributes, STACK);
		err = pthread_create(&settling->thread, &attributes, settle_attachment, settling);
		pthread_attr_destroy(&attributes);
	}
	if (err == 0)
		return true;
	close(ends[0]);
	close(ends[1]);
	return failure_errno(error, err, "a thread can't be started");
}

/* The server may die while the kernel looks for partitions.  It is restarted as ever; otherwise the
 * kernel would wait for it in vain. */
bool
guard_watch_settle(struct guard *guard, GError **error)
{
	struct settling settling;
	g_autoptr(GError) fenced = NULL;
	struct pollfd end;
	bool lost = false;

	if (!settling_begin(&settling, &guard->attachment, error))
		return false;
	end = (struct pollfd){.fd = settling.fd};
	while (poll(&end, 1, RETRY_MS) <= 0) {
		g_autofree char *why = NULL;
		g_autoptr(GError) not_yet = NULL;
		bool crashed;

		source_pass_output(&guard->source);
		if (!lost && !fenced && source_is_lost(&guard->source, &crashed, &why)) {
			guard_log_loss(guard, why);
			lost = true;
		}
		if (!lost || guard_restore(guard, &not_yet)) {
			lost = false;
		} else if (source_is_fenced(&guard->source)) {
			/* Nothing answers the kernel any more, as in end_device(). */
			attachment_undo(&guard->attachment);
			g_propagate_error(&fenced, g_steal_pointer(&not_yet));
			lost = false;
		} else if (failure_is(not_yet, EINVAL)) {
			/* It is being detached. */
			lost = false;
		}
	}
	pthread_join(settling.thread, NULL);
	close(settling.fd);
	if (fenced || settling.error) {
		failure_pass(error, fenced ? &fenced : &settling.error);
		g_clear_error(&settling.error);
		return false;
	}
	if (lost)
		guard_watch_restore(guard);
	return true;
}

/* ---- requests of the other verbs (tool/guard/guard_link.h) */

static void
guard_end_server(struct guard *guard)
{
	g_autofree char *why = NULL;
	bool crashed;

	attachment_prepare_change(&guard->attachment);
	source_break(&guard->source);
	while (!source_is_lost(&guard->source, &crashed, &why))
		g_usleep(END_US);
}

/* Tries once to restore the server; on failure, the guard goes on trying after the request. */
static bool
restore_once(struct guard *guard, GError **error)
{
	g_autoptr(GError) why = NULL;

	if (guard_restore(guard, &why))
		return true;
	return source_is_fenced(&guard->source)
		       ? failure_pass(error, &why)
		       : failure(error, EIO,
				 "/dev/%s has no new server yet, but the guard keeps trying: %s",
				 guard->attachment.name, why->message);
}

/* The conditions of LOOP_CHANGE_FD: the device is read-only, and its size stays the same. */
static bool
image_fits(const struct guard *guard, struct source *trial, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read(guard->attachment.name, error);
	uint64_t size;

	if (!device)
		return false;
	if (!device->read_only)
		return failure(
			error, EINVAL,
			"/dev/%s can be written to, and only a read-only device can get another image: attach it "
			"with --read-only",
			device->name);
	if (!source_open(trial, error))
		return false;
	size = trial->connections[0].export.size;
	size -= size % device->block_size;
	return size == device->size ||
	       failure(error, EINVAL,
		       "%s would make a device of %" PRIu64 " bytes, and /dev/%s has %" PRIu64
		       ": only an image of "
		       "the same size can take the place of another",
		       trial->place, size, device->name, device->size);
}

static bool
take_image(struct guard *guard, struct source *trial, GError **error)
{
	if (!image_fits(guard, trial, error))
		return false;
	log_info("%s: %s takes the place of %s", guard->attachment.name, trial->place,
		 guard->source.place);
	source_end(trial);
	guard_end_server(guard);
	image_source_swap(&guard->source, trial);
	guard_rewrite_record(guard);
	if (guard_restore(guard, error))
		return true;
	/* The old image worked a moment ago, and the device needs one that works. */
	image_source_swap(&guard->source, trial);
	guard_rewrite_record(guard);
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

static bool
resize_device(struct guard *guard, const char *text, GError **error)
{
	g_autofree char *why = NULL;
	bool crashed;
	guint64 size;

	if (!g_ascii_string_to_unsigned(text, 10, 1, G_MAXINT64, &size, error))
		return false;
	/* The server may have died while the request waited. */
	if (source_is_lost(&guard->source, &crashed, &why)) {
		guard_log_loss(guard, why);
		if (!restore_once(guard, error))
			return false;
	}
	if (!attachment_resize(&guard->attachment, size, error))
		return false;
	guard_look_at_others(guard);
	return true;
}

/* The text after `verb` in a request; NULL: it is another request. */
static const char *
request_operand(const char *request, const char *verb)
{
	return g_str_has_prefix(request, verb) ? request + strlen(verb) : NULL;
}

/* Notes how the next server is to begin.  Returns whether the request is such a setting. */
static bool
take_setting(struct source *source, const char *request)
{
	const char *iops = request_operand(request, "iops-limit "),
		   *bandwidth = request_operand(request, "bandwidth-limit ");

	/* "auto", not "on": direct I/O is possible now, and if it no longer is, the next server is
	 * still to start. */
	if (g_str_equal(request, "direct-io on"))
		source->direct_io = g_str_equal(source->plan->direct_io, "on") ? "on" : "auto";
	else if (g_str_equal(request, "direct-io off"))
		source->direct_io = "off";
	else if (iops)
		source->iops_limit = g_intern_string(iops);
	else if (bandwidth)
		source->bandwidth_limit = g_intern_string(bandwidth);
	else
		return false;
	return true;
}

static void
carry_out_request(struct guard *guard, const char *request, GError **error)
{
	const char *image = request_operand(request, "image "),
		   *size = request_operand(request, "resize ");

	if (take_setting(&guard->source, request)) {
		guard_rewrite_record(guard);
	} else if (g_str_equal(request, "replace") && source_is_in_server(&guard->source)) {
		failure(error, EOPNOTSUPP,
			"/dev/%s keeps its server: its temporary clone would be lost with it",
			guard->attachment.name);
	} else if (g_str_equal(request, "replace")) {
		log_info("%s: a new server takes over", guard->attachment.name);
		guard_end_server(guard);
		restore_once(guard, error);
	} else if (image) {
		change_image(guard, image, error);
	} else if (size) {
		resize_device(guard, size, error);
	} else {
		failure(error, EINVAL,
			"/dev/%s: its guard knows no request \"%s\": it is another version of nbdloop",
			guard->attachment.name, request);
	}
}

/* Carries out a request, if one has come.  There may be no server after it. */
static void
take_request(struct guard *guard)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *request;
	int peer;

	request = guard_link_take(&guard->link, &peer);
	if (!request)
		return;
	carry_out_request(guard, request, &error);
	guard_link_answer(peer, error);
}

/* ---- watching */

/* How long nothing needs to be looked at, in milliseconds; -1: for ever. */
static int
guard_look_again(const struct guard *guard)
{
	const int most = source_unseen(&guard->source) > 0 ? LOOK_MS
			 : guard->plan->source.silence > 0 ? SILENCE_MS
							   : -1;
	int next;

	source_used_up(&guard->source, &next);
	return next < 0 || (most > 0 && most < next) ? most : next;
}

/* One key must not encrypt too much, and the kernel can't change it. */
static void
renew_keys(struct guard *guard)
{
	int next;
	const unsigned int count = source_used_up(&guard->source, &next);

	if (count == 0)
		return;
	log_info("%s: %u of %u connections have used up their keys; they are replaced",
		 guard->attachment.name, count, guard->source.plan->connections);
	attachment_prepare_renewal(&guard->attachment);
	source_end_used_up(&guard->source);
	guard_watch_restore(guard);
}

static void
wait_for_news(struct guard *guard)
{
	const struct source *source = &guard->source;
	int timeout = guard_look_again(guard);
	struct signalfd_siginfo signal;
	unsigned int count = 3;
	g_autofree struct pollfd *fds =
		g_new0(struct pollfd, count + SOURCE_POLLED + source->plan->connections);

	fds[0] = (struct pollfd){.fd = guard->signals, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = guard->looking, .events = POLLIN};
	fds[2] = guard_link_polled(&guard->link, &timeout);
	if (source->kind->poll)
		count += source->kind->poll(source, &fds[count]);
	for (unsigned int i = 0; i < source->plan->connections; i++)
		fds[count++] =
			(struct pollfd){.fd = source->connections[i].fd, .events = POLLRDHUP};
	poll(fds, count, timeout);
	if (fds[0].revents && read(guard->signals, &signal, sizeof(signal)) == sizeof(signal) &&
	    signal.ssi_signo != SIGCHLD && signal.ssi_signo != SIGPIPE)
		log_warning("%s is still attached: to end it, nbdloop detach /dev/%s",
			    guard->attachment.name, guard->attachment.name);
	source_pass_output(&guard->source);
	if (fds[1].revents)
		guard_take_look(guard);
	if (fds[2].revents)
		take_request(guard);
	if (fds[2].revents && !source->kind->runs(source))
		guard_watch_restore(guard);
}

void
guard_watch(struct guard *guard)
{
	while (attachment_is_there(&guard->attachment)) {
		g_autofree char *why = NULL;
		struct nap nap;
		bool crashed = false;

		wait_for_news(guard);
		guard_probe_unseen(guard);
		guard_silence_look(guard);
		renew_keys(guard);
		if (!source_is_lost(&guard->source, &crashed, &why))
			continue;
		/* When a device is detached, its connections end a moment before it is gone from
		 * /sys. */
		nap = nap_for(crashed ? 0 : GONE_MS);
		while (attachment_is_there(&guard->attachment) && nap_take(&nap))
			;
		if (attachment_is_there(&guard->attachment))
			guard_log_loss(guard, why);
		guard_watch_restore(guard);
	}
}
