/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop list: the attached devices, and their images; or the exports of a running nbdloopd.
 */
#include "tool/failure.h"
#include "tool/show/columns.h"
#include "tool/verb/served_export.h"
#include "tool/verb/verb.h"

#include "common/log.h"
#include "common/unit.h"

#include <errno.h>

struct list_options {
	unsigned int json, noheadings, raw, output_all; /* off, on */
	char *output;                                   /* names of columns, or NULL */
	char *associated;                               /* only devices of this image, or NULL */
	char *offset;                                   /* and at this offset; NULL: at any */
};

#define FIELD(name_) offsetof(struct list_options, name_)

static const struct option_row list_option_rows[] = {
	OPTION_TEXT("associated", 'j', FIELD(associated), "IMAGE",
		    "list only devices whose data is in this image or at this URI"),
	OPTION_TEXT("offset", 'o', FIELD(offset), "SIZE",
		    "with --associated: list only devices that start at this offset of the image"),
	OPTION_SWITCH("json", 'J', FIELD(json), "print JSON"),
	OPTION_TEXT(
		"output", 'O', FIELD(output), "COLUMNS",
		"print these columns, separated by commas; with a leading +, add them to the default ones"),
	OPTION_SWITCH("output-all", 0, FIELD(output_all), "print all columns"),
	OPTION_SWITCH("noheadings", 'n', FIELD(noheadings), "print no headings"),
	OPTION_SWITCH("raw", 0, FIELD(raw),
		      "separate columns by one space, and escape spaces in values"),
	{.name = NULL},
};

/* ---- which devices */

struct selection {
	const char *source; /* the image that is wanted, or NULL */
	const char *offset; /* as the user wrote it, or NULL */
	uint64_t bytes;     /* the same as a number */
};

static bool
selection_init(struct selection *selection, const struct list_options *options, GError **error)
{
	*selection = (struct selection){.source = options->associated, .offset = options->offset};
	if (!selection->offset)
		return true;
	if (!selection->source)
		return failure(error, EINVAL,
			       "--offset is for --associated only: give the image, too");
	return unit_parse_size(selection->offset, &selection->bytes) == 0 ||
	       failure(error, EINVAL,
		       "--offset=%s: must be a size in bytes, such as 512, 64k or 4G",
		       selection->offset);
}

/* Takes over a device, and adds it if it is wanted. */
static void
add_device(GPtrArray *listings, const struct selection *selection, struct device *device)
{
	struct listing *listing = listing_new(device);
	json_auto_t *offset = listing_member(listing, "offset");

	if (listing->trouble)
		log_warning("/dev/%s: %s", device->name, listing->trouble);
	if ((!selection->source || listing_has_source(listing, selection->source)) &&
	    (!selection->offset ||
	     (json_is_integer(offset) && (uint64_t)json_integer_value(offset) == selection->bytes)))
		g_ptr_array_add(listings, listing);
	else
		listing_free(listing);
}

/* ---- exports */

/* An operand that names exports; NULL: there is none. */
static const char *
find_export(const struct verb_call *call)
{
	for (int i = 0; i < call->count; i++) {
		if (!asked_server_is_device(call->operands[i]))
			return call->operands[i];
	}
	return NULL;
}

static struct export_table_options
export_table_of(const struct list_options *options)
{
	return (struct export_table_options){.json = options->json,
					     .noheadings = options->noheadings,
					     .output = options->output};
}

/* Of devices. */
static GPtrArray *
list_columns(const struct list_options *options, GError **error)
{
	return options->output       ? columns_parse(options->output, error)
	       : options->output_all ? columns_all()
				     : columns_default();
}

static bool
list_check(const struct verb_call *call, GError **error)
{
	const struct list_options *options = call->options;
	const struct export_table_options table = export_table_of(options);
	const char *export = find_export(call);
	g_autoptr(GPtrArray) columns = NULL;
	struct selection selection;

	if (!export) {
		columns = list_columns(options, error);
		return columns && selection_init(&selection, options, error);
	}
	if (call->count > 1)
		return failure(error, EINVAL,
			       "\"%s\" is no device: list takes devices, or one SOCKET or "
			       "[SOCKET:]EXPORT",
			       export);
	if (options->associated || options->offset || options->raw || options->output_all)
		return failure(
			error, EINVAL,
			"--associated, --offset, --output-all and --raw are for devices, and "
			"\"%s\" is none",
			export);
	return export_table_check(&table, error);
}

static bool
list_exports(const char *text, const struct list_options *options, GError **error)
{
	const struct export_table_options table = export_table_of(options);
	struct asked_server server;
	bool done = asked_server_find(&server, text, error) &&
		    served_export_list(&server, &table, error);

	asked_server_fini(&server);
	return done;
}

/* ---- the list */

static bool
run_list(const struct verb_call *call, GError **error)
{
	const struct list_options *options = call->options;
	g_autoptr(GPtrArray) listings =
		g_ptr_array_new_with_free_func((GDestroyNotify)listing_free);
	g_autoptr(GPtrArray) columns = find_export(call) ? NULL : list_columns(options, error);
	g_autoptr(GPtrArray) devices = NULL;
	struct selection selection;
	bool good = true;

	if (find_export(call))
		return list_exports(find_export(call), options, error);
	if (!columns || !selection_init(&selection, options, error))
		return false;
	if (call->count == 0) {
		devices = devices_read_attached(error);
		good = devices != NULL;
	}
	while (devices && devices->len > 0)
		add_device(listings, &selection, g_ptr_array_steal_index(devices, 0));
	for (int i = 0; i < call->count; i++) {
		g_autoptr(GError) why = NULL;
		struct device *device = device_read_attached(call->operands[i], &why);

		if (device) {
			add_device(listings, &selection, device);
			continue;
		}
		log_error("%s", why->message);
		good = false;
	}
	if (options->json)
		columns_print_json(stdout, columns, listings);
	else
		columns_print(stdout, columns, listings,
			      (options->noheadings ? COLUMNS_NO_HEADINGS : 0) |
				      (options->raw ? COLUMNS_RAW : 0));
	return good;
}

const struct verb verb_list = {
	.name = "list",
	.help = "list attached devices, or exports",
	.synopsis = "[OPTION]... [DEVICE...|SOCKET|[SOCKET:]EXPORT]",
	.summary = "Lists all attached devices, or the named ones, or exports of an nbdloopd.",
	.rows = list_option_rows,
	.show_more = columns_print_help,
	.most = -1,
	.options_size = sizeof(struct list_options),
	.check = list_check,
	.run = run_list,
};
