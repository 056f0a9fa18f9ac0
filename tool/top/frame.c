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
	"name", "IO/s", "reads/s",         "writes/s",  "MB/s", "MB/s read",   "MB/s written",
	"ms",   "p99",  "disk operations", "in flight", "held", "connections",
};

void
frame_summary(const struct frame *frame, GPtrArray *lines)
{
	g_autoptr(GDateTime) now = g_date_time_new_now_local();
	g_autofree char *time = g_date_time_format(now, "%H:%M:%S");
	g_autofree char *first = NULL, *second = NULL;
	unsigned int devices = 0, exports = 0, troubles = 0;
	double reads = 0, writes = 0, read_bytes = 0, written_bytes = 0, disk = 0;
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
		disk += row_figure(row, ROW_DISK);
		in_flight += row->in_flight;
	}
	first = g_strdup_printf(
		"nbdloop top - %s, every %g s, %u device%s, %u export%s, %u in trouble; by %s%s",
		time, frame->delay, devices, devices == 1 ? "" : "s", exports,
		exports == 1 ? "" : "s", troubles, order_words[frame->order],
		frame->reverse ? ", reversed" : "");
	second = g_strdup_printf("read %.1f/s, %.1f MB/s; written %.1f/s, %.1f MB/s; disk %.1f/s; "
				 "%" PRIu64 " in flight",
				 reads, read_bytes / 1e6, writes, written_bytes / 1e6, disk,
				 in_flight);
	add_line(frame, lines, first);
	add_line(frame, lines, second);
}

char *
frame_remarks(const struct frame *frame)
{
	GString *text = g_string_new(NULL);

	if (frame->denied)
		g_string_append_printf(text, "%u server%s: permission denied (run as root)",
				       frame->denied, frame->denied == 1 ? "" : "s");
	if (frame->lacks_servers)
		g_string_append_printf(text, "%sstill looking for servers", text->len ? "; " : "");
	if (frame->hidden)
		g_string_append_printf(text, "%sidle lines are hidden (i)", text->len ? "; " : "");
	return g_string_free(text, FALSE);
}

/* The columns up to HELD fit a screen of 80. */
void
frame_headings(const struct frame *frame, GPtrArray *lines)
{
	g_autofree char *line = g_strdup_printf(
		"%-*s %6s %6s %6s %6s %6s %6s %5s %6s %4s %4s %4s  %-8s %-8s %s", NAME_CELLS,
		"DEVICE/EXPORT", "r/s", "w/s", "rMB/s", "wMB/s", "disk/s", "diskMB", "ms", "p99",
		"INFL", "HELD", "CONN", "ENGINE", "TLS", "IMAGE, LIMITS");

	add_line(frame, lines, line);
}

/* An upper bound, of which only powers of 2 are known: no digits that mean nothing. */
static void
add_latency(GString *line, uint64_t us)
{
	char text[32] = "-";

	if (us >= 1000000)
		g_snprintf(text, sizeof(text), "%.3gs", (double)us / 1e6);
	else if (us >= 1000)
		g_snprintf(text, sizeof(text), "%.3gms", (double)us / 1e3);
	else if (us > 0)
		g_snprintf(text, sizeof(text), "%" PRIu64 "us", us);
	g_string_append_printf(line, " %6s", text);
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
}

/* Returns whether a limit holds requests back, or has done so in the interval. */
static bool
row_is_held(const struct row *row)
{
	return row->held > 0 || row->figures.held_per_second > 0;
}

unsigned int
frame_row_lines(const struct row *row)
{
	return (row->trouble && (row->device || !row->silent)) || row_is_held(row) ? 2 : 1;
}

/* The second line. */
static void
add_notes(const struct frame *frame, const struct row *row, GPtrArray *lines)
{
	g_autoptr(GString) line = g_string_new("  ");

	if (row->trouble)
		g_string_append(line, row->trouble);
	if (row_is_held(row)) {
		g_string_append_printf(line, "%s%" PRIu64 " held", row->trouble ? "; " : "",
				       row->held);
		if (row->figures.held_per_second > 0)
			g_string_append_printf(line, ", %.1f/s wait %.3g ms",
					       row->figures.held_per_second,
					       row->figures.held_milliseconds);
		g_string_append_printf(line, ": %s",
				       row->limits && *row->limits ? row->limits
								   : "a limit of each client");
	}
	add_line(frame, lines, line->str);
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
	add_figure(line, row_figure(row, ROW_READS), row->measured, 7);
	add_figure(line, row_figure(row, ROW_WRITES), row->measured, 7);
	add_figure(line, row_figure(row, ROW_READ_BANDWIDTH) / 1e6, row->measured, 7);
	add_figure(line, row_figure(row, ROW_WRITE_BANDWIDTH) / 1e6, row->measured, 7);
	add_figure(line, row->figures.disk_iops, row->measured && row->told, 7);
	add_figure(line, row->figures.disk_bytes_per_second / 1e6, row->measured && row->told, 7);
	add_figure(line, row->milliseconds, row->milliseconds > 0, 6);
	add_latency(line, row->figures.p99);
	add_number(line, row->in_flight, row->told || row->device, 5);
	add_number(line, row->held, row->told, 5);
	add_number(line, row->connections, row->told, 5);
	add_facts(line, row);
	add_line(frame, lines, line->str);
	if (frame_row_lines(row) > 1)
		add_notes(frame, row, lines);
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
		"r/s to wMB/s: what clients asked for.  disk/s, diskMB: what the server did on the",
		"disk, per second.  ms: the average time of a request in the kernel.  p99: 99 % of the",
		"requests took less in the server.  INFL: requests in flight.  HELD: requests that a",
		"limit holds back.  CONN: connections.  MB: 1,000,000 bytes.",
		"",
		"Any key goes back.",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(help); i++)
		add_line(frame, lines, help[i]);
}
