/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_requests.h"

#include "tool/device/device.h"
#include "tool/failure.h"

#include "common/log.h"

#include <errno.h>
#include <inttypes.h>

enum {
	GONE_US = 10000,
};

/* Ends our server, and waits until it has ended. */
static void
end_server(struct guard *guard)
{
	g_autofree char *why = NULL;
	bool crashed;

	attachment_prepare_change(&guard->attachment);
	upstream_break(&guard->upstream);
	while (!upstream_is_lost(&guard->upstream, &crashed, &why))
		g_usleep(GONE_US);
}

/* Tries once to restore the server; on failure, the guard goes on trying after the request. */
static bool
restore_once(struct guard *guard, GError **error)
{
	g_autoptr(GError) why = NULL;

	return guard_restore(guard, &why) ||
	       failure(error, EIO,
		       "/dev/%s has no new server yet, but it is being tried further: %s",
		       guard->attachment.name, why->message);
}

static bool
replace_server(struct guard *guard, GError **error)
{
	log_info("%s: a new server takes over", guard->attachment.name);
	end_server(guard);
	return restore_once(guard, error);
}

/* The conditions of LOOP_CHANGE_FD: the device is read-only, and its size stays the same. */
static bool
image_fits(const struct guard *guard, struct upstream *trial, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read("/sys", guard->attachment.name, error);
	uint64_t size;

	if (!device)
		return false;
	if (!device->read_only)
		return failure(
			error, EINVAL,
			"/dev/%s can be written to, and only a read-only device can get another image: attach it "
			"with --read-only",
			device->name);
	if (!upstream_open(trial, error))
		return false;
	size = trial->connections[0].size;
	size -= size % device->block_size;
	return size == device->size ||
	       failure(error, EINVAL,
		       "%s would make a device of %" PRIu64 " bytes, and /dev/%s has %" PRIu64
		       ": only an image of "
		       "the same size can take the place of another",
		       trial->place, size, device->name, device->size);
}

static void
note(struct guard *guard)
{
	g_autoptr(GError) error = NULL;

	if (!guard_write_record(guard, &error))
		log_warning("%s: %s", guard->attachment.name, error->message);
}

static bool
take_image(struct guard *guard, struct upstream *trial, GError **error)
{
	if (!image_fits(guard, trial, error))
		return false;
	log_info("%s: %s takes the place of %s", guard->attachment.name, trial->place,
		 guard->upstream.place);
	upstream_end(trial);
	end_server(guard);
	upstream_swap_image(&guard->upstream, trial);
	note(guard);
	if (guard_restore(guard, error))
		return true;
	/* The old image worked a moment ago, and the device needs one that works. */
	upstream_swap_image(&guard->upstream, trial);
	note(guard);
	return false;
}

static bool
change_image(struct guard *guard, const char *image, GError **error)
{
	struct upstream trial;
	bool taken;

	upstream_init_trial(&trial, &guard->upstream, image);
	taken = take_image(guard, &trial, error);
	upstream_fini(&trial);
	return taken;
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
	/* The server may have died while this request waited. */
	if (upstream_is_lost(&guard->upstream, &crashed, &why)) {
		guard_log_loss(guard, why);
		if (!restore_once(guard, error))
			return false;
	}
	return attachment_resize(&guard->attachment, size, error);
}

/* The text after `verb` in a request; NULL: the request is another one. */
static const char *
operand(const char *request, const char *verb)
{
	return g_str_has_prefix(request, verb) ? request + strlen(verb) : NULL;
}

static void
carry_out(struct guard *guard, const char *request, GError **error)
{
	const char *image = operand(request, "image "), *size = operand(request, "resize ");

	/* It was possible, and is wherever it still will be: no reason for the next server not to
	 * start. */
	if (g_str_equal(request, "direct-io on"))
		guard->upstream.direct_io =
			g_str_equal(guard->upstream.plan->direct_io, "on") ? "on" : "auto";
	else if (g_str_equal(request, "direct-io off"))
		guard->upstream.direct_io = "off";
	else if (g_str_equal(request, "replace"))
		replace_server(guard, error);
	else if (image)
		change_image(guard, image, error);
	else if (size)
		resize(guard, size, error);
	else
		failure(error, EINVAL,
			"/dev/%s: its guard knows no request \"%s\": it is another version of nbdloop",
			guard->attachment.name, request);
}

void
guard_requests_take(struct guard *guard)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *request;
	int peer;

	request = guard_link_take(&guard->link, &peer);
	if (!request)
		return;
	carry_out(guard, request, &error);
	if (g_str_has_prefix(request, "direct-io "))
		note(guard);
	guard_link_answer(peer, error);
}
