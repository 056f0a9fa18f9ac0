/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/progress.h"

#include "tool/show/output.h"

#include <string.h>
#include <sys/ioctl.h>

#define BAR_WIDTH 30
#define BAR_LEAST 5
#define LONGEST   (99 * 3600.0) /* seconds: more is no estimate */

void
progress_begin(struct progress *progress, const char *step, uint64_t total)
{
	progress->step = step;
	progress->total = total;
	progress->done = 0;
	progress->begun = g_get_monotonic_time();
	progress->shown = 0;
}

const char *
progress_duration(double seconds, char text[32])
{
	const unsigned int whole = (unsigned int)seconds;

	if (seconds > LONGEST)
		g_strlcpy(text, "-:--", 32);
	else if (whole >= 3600)
		g_snprintf(text, 32, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
	else
		g_snprintf(text, 32, "%u:%02u", whole / 60, whole % 60);
	return text;
}

static double
progress_rate(const struct progress *progress, double seconds)
{
	return seconds > 0 ? (double)progress->done / seconds : 0;
}

static double
seconds_left(const struct progress *progress, double seconds)
{
	const double now = progress_rate(progress, seconds);

	return now > 0 ? (double)(progress->total - progress->done) / now : LONGEST + 1;
}

/* The bar and a blank in so many columns, or nothing. */
static char *
progress_gauge(double part, int columns)
{
	const int width = MIN(columns - 3, BAR_WIDTH);
	const int filled = (int)(part * width);
	char bar[BAR_WIDTH + 1];

	if (width < BAR_LEAST)
		return g_strdup("");
	memset(bar, '.', (size_t)width);
	memset(bar, '#', (size_t)filled);
	bar[width] = '\0';
	return g_strdup_printf("[%s] ", bar);
}

char *
progress_bar(const struct progress *progress, double seconds, int columns)
{
	const double part = progress->total ? (double)progress->done / (double)progress->total : 1;
	char duration[32];
	g_autofree char *step = g_strdup_printf("%-6s ", progress->step);
	g_autofree char *percent = g_strdup_printf("%3d %%", (int)(part * 100));
	g_autofree char *rate =
		g_strdup_printf("  %.1f MB/s", progress_rate(progress, seconds) / 1e6);
	g_autofree char *left = g_strdup_printf(
		"  %s left", progress_duration(seconds_left(progress, seconds), duration));
	const size_t room = (size_t)MAX(columns, 0);
	const size_t with_time = strlen(step) + strlen(percent) + strlen(left);
	const bool has_time = with_time <= room;
	const bool has_rate = with_time + strlen(rate) + BAR_LEAST + 3 <= room;
	const size_t used = strlen(step) + strlen(percent) + (has_time ? strlen(left) : 0) +
			    (has_rate ? strlen(rate) : 0);
	g_autofree char *gauge =
		progress_gauge(part, (int)MIN(room - MIN(used, room), (size_t)BAR_WIDTH + 3));
	char *text =
		g_strconcat(step, gauge, percent, has_rate ? rate : "", has_time ? left : "", NULL);

	/* A terminal of a few columns. */
	if (strlen(text) > room)
		text[room] = '\0';
	return text;
}

/* Columns of a terminal; it may be made wider or narrower at any time. */
static int
progress_columns(FILE *out)
{
	struct winsize size = {.ws_col = 0};

	/* The last column stays free, since some terminals begin a new line after it. */
	if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
		return size.ws_col - 1;
	return 79;
}

static void
show_json(const struct progress *progress, double seconds)
{
	json_t *line =
		json_pack("{ss ss sI sI sI}", "event", "progress", "step", progress->step, "bytes",
			  (json_int_t)progress->done, "total", (json_int_t)progress->total,
			  "bytes-per-second", (json_int_t)progress_rate(progress, seconds));

	if (line && seconds_left(progress, seconds) <= LONGEST)
		json_object_set_new(line, "seconds-left",
				    json_integer((json_int_t)seconds_left(progress, seconds)));
	output_json(progress->out, line, false);
	json_decref(line);
	fflush(progress->out);
}

static void
show_now(struct progress *progress)
{
	const double seconds = (double)(g_get_monotonic_time() - progress->begun) / G_USEC_PER_SEC;
	g_autofree char *bar = NULL;

	progress->shown = g_get_monotonic_time();
	if (progress->form == PROGRESS_JSON) {
		show_json(progress, seconds);
	} else if (progress->form == PROGRESS_BAR) {
		bar = progress_bar(progress, seconds, progress_columns(progress->out));
		/* What an earlier, longer text has left after it is erased. */
		fprintf(progress->out, "\r%s\033[K", bar);
		fflush(progress->out);
	}
}

void
progress_show(struct progress *progress)
{
	const gint64 every = progress->form == PROGRESS_BAR ? G_USEC_PER_SEC / 5 : G_USEC_PER_SEC;

	if (progress->form != PROGRESS_NONE &&
	    g_get_monotonic_time() - MAX(progress->shown, progress->begun) >= every)
		show_now(progress);
}

void
progress_add(struct progress *progress, uint64_t bytes)
{
	progress->done = MIN(progress->done + bytes, progress->total);
	progress_show(progress);
}

void
progress_end(struct progress *progress)
{
	if (progress->form == PROGRESS_NONE)
		return;
	show_now(progress);
	if (progress->form == PROGRESS_BAR)
		fputs("\n", progress->out);
}

void
progress_fail(struct progress *progress)
{
	if (progress->form == PROGRESS_BAR && progress->shown)
		fputs("\n", progress->out);
	progress->shown = 0;
}
