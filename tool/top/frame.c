/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/frame.h"

#include <inttypes.h>
#include <string.h>

#define NAME_CELLS 14

/* ---- cells */

static unsigned int
cells_of(gunichar character)
{
	return g_unichar_iszerowidth(character) ? 0 : g_unichar_iswide(character) ? 2 : 1;
}

char *
frame_cut(const char *text, unsigned int left, unsigned int columns)
{
	GString *cut = g_string_new(NULL);
	unsigned int at = 0;

	while (*text) {
		gunichar character = g_utf8_get_char_validated(text, -1);
		bool valid = character < (gunichar)-2;
		const char *next = valid ? g_utf8_next_char(text) : text + 1;
		/* Names are other people's: no control characters, and none that turn the line
		 * round. */
		bool plain = valid && g_unichar_isprint(character);
		unsigned int cells = plain ? cells_of(character) : 1;

		if (columns && at + cells > left + columns)
			break;
		if (at >= left && plain)
			g_string_append_len(cut, text, next - text);
		else if (at >= left)
			g_string_append_c(cut, '?');
		at += cells;
		text = next;
	}
	return g_string_free(cut, FALSE);
}

unsigned int
frame_cells(const char *text)
{
	unsigned int cells = 0;

	for (; *text; text = g_utf8_next_char(text))
		cells += cells_of(g_utf8_get_char(text));
	return cells;
}

static void
add_line(const struct frame *frame, GPtrArray *lines, const char *text)
{
	g_ptr_array_add(lines, frame_cut(text, frame->left, frame->columns));
}

/* Appends a cell of this width to a line, at its left end. */
static void
add_text(GString *line, const char *text, unsigned int width)
{
	g_autofree char *cut = frame_cut(text, 0, width);

	g_string_append_printf(line, "%s%*s", cut, (int)(width - frame_cells(cut)), "");
}

/* With three significant digits if it is small, and without a fraction, or as a power of ten, if
 * there is no room for more: each column stays below its heading. */
static void
add_figure(GString *line, double figure, bool known, int width)
{
	char text[330] = "-";
	int length = 1;

	for (int digits = figure < 9.995 ? 2 : 1; known && digits >= 0; digits--) {
		length = g_snprintf(text, sizeof(text), "%.*f", digits, figure);
		if (length < width)
			break;
	}
	if (length >= width)
		g_snprintf(text, sizeof(text), "%.*e", width > 7 ? 1 : 0, figure);
	g_string_append_printf(line, " %*s", width - 1, text);
}

static void
add_number(GString *line, uint64_t number, bool known, int width)
{
	if (known)
		g_string_append_printf(line, " %*" PRIu64, width - 1, number);
	else
		g_string_append_printf(line, " %*s", width - 1, "-");
}

/* ---- lines */

static const char *const order_words[ROW_ORDERS] = {
	"name",         "IO/s", "reads/s", "writes/s",  "MB/s",        "MB/s read",
	"MB/s written", "ms",   "p99",     "in flight", "connections",
};

void
frame_summary(const struct frame *frame, GPtrArray *lines)
{
	g_autoptr(GDateTime) now = g_date_time_new_now_local();
	g_autofree char *time = g_date_time_format(now, "%H:%M:%S");
	g_autofree char *first = NULL, *second = NULL;
	unsigned int devices = 0, exports = 0, troubles = 0;
	double reads = 0, writes = 0, read_bytes = 0, written_bytes = 0;
	uint64_t in_flight = 0;

	for (guint i = 0; i < frame->rows->len; i++) {
		const struct row *row = frame->rows->pdata[i];

		devices += row->device;
		exports += !row->device;
		troubles += row->trouble != NULL;
		reads += row_figure(row, ROW_READS);
		writes += row_figure(row, ROW_WRITES);
		read_bytes += row_figure(row, ROW_READ_BANDWIDTH);
		written_bytes += row_figure(row, ROW_WRITE_BANDWIDTH);
		in_flight += row->in_flight;
	}
	first = g_strdup_printf(
		"nbdloop top - %s, every %g s, %u device%s, %u export%s, %u in trouble; sorted by %s%s",
		time, frame->delay, devices, devices == 1 ? "" : "s", exports,
		exports == 1 ? "" : "s", troubles, order_words[frame->order],
		frame->reverse ? ", reversed" : "");
	second = g_strdup_printf("read %.1f/s, %.1f MB/s; written %.1f/s, %.1f MB/s; %" PRIu64
				 " in flight%s%s",
				 reads, read_bytes / 1e6, writes, written_bytes / 1e6, in_flight,
				 frame->lacks_servers ? "; still looking for servers" : "",
				 frame->hidden ? "; idle lines are hidden (i)" : "");
	add_line(frame, lines, first);
	add_line(frame, lines, second);
}

void
frame_headings(const struct frame *frame, GPtrArray *lines)
{
	g_autofree char *line =
		g_strdup_printf("%-*s %7s %7s %7s %7s %6s %7s %4s %4s  %-8s %-8s %s", NAME_CELLS,
				"DEVICE/EXPORT", "r/s", "w/s", "rMB/s", "wMB/s", "ms", "p99us",
				"INFL", "CONN", "ENGINE", "TLS", "IMAGE, LIMITS, TROUBLE");

	add_line(frame, lines, line);
}

static void
add_facts(GString *line, const struct row *row)
{
	g_string_append(line, "  ");
	add_text(line, row->engine ? row->engine : "-", 8);
	g_string_append_c(line, ' ');
	add_text(line, row->tls ? row->tls : "-", 8);
	g_string_append_printf(line, " %s%s%s", row->image ? row->image : "-",
			       row->limits && *row->limits ? ", " : "",
			       row->limits ? row->limits : "");
	if (row->trouble)
		g_string_append_printf(line, "; %s", row->trouble);
}

void
frame_row(const struct frame *frame, const struct row *row, GPtrArray *lines)
{
	g_autoptr(GString) line = g_string_new(NULL);

	add_text(line, row->name, NAME_CELLS);
	/* Nothing but this is known. */
	if (row->silent && !row->device) {
		g_string_append_printf(line, "  %s", row->trouble);
		if (!g_str_has_prefix(row->name, "/") && row->image)
			g_string_append_printf(line, "; %s", row->image);
		add_line(frame, lines, line->str);
		return;
	}
	add_figure(line, row_figure(row, ROW_READS), row->measured, 8);
	add_figure(line, row_figure(row, ROW_WRITES), row->measured, 8);
	add_figure(line, row_figure(row, ROW_READ_BANDWIDTH) / 1e6, row->measured, 8);
	add_figure(line, row_figure(row, ROW_WRITE_BANDWIDTH) / 1e6, row->measured, 8);
	add_figure(line, row->milliseconds, row->milliseconds > 0, 7);
	if (row->silent) {
		g_string_append_printf(line, "  %s; %s", row->trouble,
				       row->image ? row->image : "-");
		add_line(frame, lines, line->str);
		return;
	}
	if (row->figures.p99) {
		g_autofree char *p99 = g_strdup_printf("<%" PRIu64, row->figures.p99);

		g_string_append_printf(line, " %7s", p99);
	} else {
		g_string_append_printf(line, " %7s", "-");
	}
	add_number(line, row->in_flight, row->told || row->device, 5);
	add_number(line, row->connections, row->told, 5);
	add_facts(line, row);
	add_line(frame, lines, line->str);
}

void
frame_help(const struct frame *frame, GPtrArray *lines)
{
	static const char *const help[] = {
		"nbdloop top: the devices of this machine, and the exports of its servers",
		"",
		"  q            end                    h ?          this help",
		"  space enter  measure now            d s          change the delay",
		"  P            sort by IO/s           M            sort by MB/s",
		"  L            sort by p99            F            sort by requests in flight",
		"  C            sort by connections    N            sort by name",
		"  < >          sort by the figure before, or after",
		"  r R          reverse the order",
		"  i            hide what is idle, or show it",
		"  arrows, page up, page down, home, end: the rest of the list and of its lines",
		"",
		"ms: the average time of a request in the kernel.  p99us: 99 % of the requests took",
		"less than that many microseconds in the server, of which only powers of 2 are known.",
		"MB: 1,000,000 bytes.  INFL: requests in flight.  CONN: connections.",
		"",
		"Any key goes back.",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(help); i++)
		add_line(frame, lines, help[i]);
}
