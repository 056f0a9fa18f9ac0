/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/view.h"

#include "tool/top/frame.h"
#include "tool/top/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Lines above the list: the summary, a message, the headings. */
#define ABOVE 4

/* How far the arrows go to the side, in cells. */
#define SIDEWAYS 8

void
view_init(struct view *view, enum row_order order, double delay)
{
	*view = (struct view){
		.order = order,
		.delay = delay,
		.rows = g_ptr_array_new_with_free_func((GDestroyNotify)row_free),
	};
}

void
view_fini(struct view *view)
{
	g_ptr_array_unref(view->rows);
	g_free(view->message);
	if (view->question)
		g_string_free(view->question, TRUE);
}

bool
view_parse_delay(const char *text, double *delay)
{
	char *end;
	double value = g_ascii_strtod(text, &end);

	if (end == text || *end || !(value >= VIEW_DELAY_LEAST && value <= VIEW_DELAY_MOST))
		return false;
	*delay = value;
	return true;
}

void
view_sort(struct view *view)
{
	rows_sort(view->rows, view->order, view->reverse);
}

/* ---- keys */

static enum view_wish
answer_question(struct view *view)
{
	g_autofree char *text = g_string_free(g_steal_pointer(&view->question), FALSE);

	if (*text && !view_parse_delay(text, &view->delay))
		view->message = g_strdup_printf(
			"\"%s\" is no delay: it must be a number of seconds from %g to %g", text,
			VIEW_DELAY_LEAST, VIEW_DELAY_MOST);
	return VIEW_DRAW;
}

static enum view_wish
question_key(struct view *view, int key)
{
	switch (key) {
	case '\n':
	case '\r': return answer_question(view);
	case KEY_ESCAPE: g_string_free(g_steal_pointer(&view->question), TRUE); return VIEW_DRAW;
	case KEY_RUBOUT:
	case '\b':
		if (view->question->len > 0)
			g_string_truncate(view->question, view->question->len - 1);
		return VIEW_DRAW;
	default:
		if (key >= ' ' && key < KEY_RUBOUT && view->question->len < 16)
			g_string_append_c(view->question, (char)key);
		return VIEW_DRAW;
	}
}

static void
sort_by(struct view *view, enum row_order order)
{
	view->order = order;
	view_sort(view);
}

static bool
sort_key(struct view *view, int key)
{
	static const struct {
		int key;
		enum row_order order;
	} keys[] = {
		{'P', ROW_IOPS},      {'M', ROW_BANDWIDTH},   {'L', ROW_P99},
		{'F', ROW_IN_FLIGHT}, {'C', ROW_CONNECTIONS}, {'N', ROW_NAME},
	};

	for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
		if (keys[i].key == key)
			return sort_by(view, keys[i].order), true;
	}
	switch (key) {
	case '<': sort_by(view, view->order > 0 ? view->order - 1 : 0); return true;
	case '>': sort_by(view, MIN(view->order + 1, ROW_ORDERS - 1)); return true;
	case 'r':
	case 'R':
		view->reverse = !view->reverse;
		view_sort(view);
		return true;
	default: return false;
	}
}

/* The ends of the list are looked after where it is drawn. */
static bool
scroll_key(struct view *view, int key)
{
	unsigned int columns, lines, page;

	terminal_size(&columns, &lines);
	page = lines > ABOVE + 1 ? lines - ABOVE : 1;
	switch (key) {
	case KEY_UP: view->first -= view->first > 0; return true;
	case KEY_DOWN: view->first++; return true;
	case KEY_PAGE_UP: view->first -= MIN(view->first, page); return true;
	case KEY_PAGE_DOWN: view->first += page; return true;
	case KEY_LEFT: view->left -= MIN(view->left, SIDEWAYS); return true;
	case KEY_RIGHT: view->left += SIDEWAYS; return true;
	case KEY_HOME: view->first = view->left = 0; return true;
	case KEY_END: view->first = G_MAXINT; return true;
	default: return false;
	}
}

enum view_wish
view_key(struct view *view, int key)
{
	g_clear_pointer(&view->message, g_free);
	if (view->question)
		return question_key(view, key);
	if (view->helps) {
		view->helps = false;
		return key == 'q' ? VIEW_END : VIEW_DRAW;
	}
	if (sort_key(view, key) || scroll_key(view, key))
		return VIEW_DRAW;
	switch (key) {
	case 'q':
	case 'Q': return VIEW_END;
	case ' ':
	case '\n':
	case '\r': return VIEW_MEASURE;
	case 'h':
	case '?': view->helps = true; return VIEW_DRAW;
	case 'd':
	case 's': view->question = g_string_new(NULL); return VIEW_DRAW;
	case 'i': view->hides_idle = !view->hides_idle; return VIEW_DRAW;
	case '\f': /* Ctrl-L */ return VIEW_DRAW;
	default:
		view->message = g_strdup("This key does nothing: h shows those that do");
		return VIEW_DRAW;
	}
}

/* ---- the screen */

static struct frame
frame_of(const struct view *view, unsigned int columns)
{
	return (struct frame){
		.rows = view->rows,
		.order = view->order,
		.reverse = view->reverse,
		.delay = view->delay,
		.lacks_servers = view->lacks_servers,
		.denied = view->denied,
		.hidden = view->hides_idle,
		.columns = columns,
	};
}

static char *
message_of(const struct view *view, const struct frame *frame)
{
	unsigned int columns = frame->columns;
	g_autofree char *question = NULL, *remarks = frame_remarks(frame);

	if (view->question) {
		question = g_strdup_printf("Seconds between measurements (now %g): %s_",
					   view->delay, view->question->str);
		return frame_cut(question, 0, columns);
	}
	return frame_cut(view->message ? view->message : remarks, 0, columns);
}

static const char *
view_why_empty(const struct view *view)
{
	if (geteuid() == 0)
		return "no device is attached, and no server with a control socket runs";
	return view->denied
		       ? "no device is attached, and no other server is seen"
		       : "no device is attached, and no server is seen: root sees those of all users";
}

static void
view_add_list(struct view *view, struct frame *frame, unsigned int room, GPtrArray *texts)
{
	g_autoptr(GPtrArray) shown = g_ptr_array_new();
	guint last, end;
	unsigned int below = 0;

	for (guint i = 0; i < view->rows->len; i++) {
		if (!view->hides_idle || !row_is_idle(view->rows->pdata[i]))
			g_ptr_array_add(shown, view->rows->pdata[i]);
	}
	last = shown->len;
	/* The last rows that fill the room. */
	while (last > 0 && (below += frame_row_lines(shown->pdata[last - 1])) <= room)
		last--;
	view->first = MIN(view->first, last);
	frame->left = view->left;
	frame_headings(frame, texts);
	end = texts->len + room;
	for (guint i = view->first; i < shown->len && texts->len < end; i++)
		frame_row(frame, shown->pdata[i], texts);
	if (texts->len > end)
		g_ptr_array_set_size(texts, (gint)end);
	if (view->rows->len == 0)
		g_ptr_array_add(texts, frame_cut(view_why_empty(view), 0, frame->columns));
}

GString *
view_screen(struct view *view, unsigned int columns, unsigned int lines)
{
	g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
	struct frame frame = frame_of(view, columns);
	GString *screen = g_string_new("\033[H");

	if (view->helps) {
		frame_help(&frame, texts);
	} else {
		frame_summary(&frame, texts);
		g_ptr_array_add(texts, message_of(view, &frame));
		view_add_list(view, &frame, lines > ABOVE ? lines - ABOVE : 0, texts);
	}
	for (guint i = 0; i < texts->len && i < lines; i++) {
		const char *text = texts->pdata[i];
		bool headings = !view->helps && i == ABOVE - 1;

		/* No newline after the last line: the screen would scroll.  After a full line, the
		 * cursor is still on its last cell, which must not be erased. */
		g_string_append_printf(screen, "%s%s%s%s%s", i ? "\r\n" : "",
				       headings ? "\033[7m" : "", text, headings ? "\033[0m" : "",
				       frame_cells(text) < columns ? "\033[K" : "");
	}
	if (texts->len < lines)
		g_string_append(screen, "\r\n\033[J");
	return screen;
}

void
view_print(struct view *view, FILE *out)
{
	g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
	struct frame frame = frame_of(view, 0);

	frame_summary(&frame, texts);
	g_ptr_array_add(texts, message_of(view, &frame));
	view_add_list(view, &frame, G_MAXINT, texts);
	for (guint i = 0; i < texts->len; i++)
		fprintf(out, "%s\n", (char *)texts->pdata[i]);
	fprintf(out, "\n");
}
