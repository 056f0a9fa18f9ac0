/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/backup_date.h"

#include "tool/failure.h"

#include <errno.h>
#include <string.h>

#define LAST_SECOND INT64_C(253402300799) /* of the year 9999: GLib knows no later one */

/* A header may have any number. */
static GDateTime *
backup_date_local(uint64_t seconds)
{
	return g_date_time_new_from_unix_local((gint64)MIN(seconds, (uint64_t)LAST_SECOND - 86400));
}

static char *
backup_date_format(uint64_t seconds, const char *format)
{
	g_autoptr(GDateTime) date = backup_date_local(seconds);

	return g_date_time_format(date, format);
}

char *
backup_date_text(uint64_t seconds)
{
	return backup_date_format(seconds, "%Y-%m-%d %H:%M:%S");
}

char *
backup_date_iso(uint64_t seconds)
{
	return backup_date_format(seconds, "%Y-%m-%dT%H:%M:%S%:z");
}

bool
backup_date_is(const char *text)
{
	return text[strspn(text, "0123456789")] != '\0';
}

/* The last second of the day, `days` later, in which the moment is. */
static GDateTime *
backup_date_day_end(GDateTime *moment, int days)
{
	/* Each day has a noon, but some have no midnight: the clocks go forward then. */
	g_autoptr(GDateTime) noon =
		g_date_time_new_local(g_date_time_get_year(moment), g_date_time_get_month(moment),
				      g_date_time_get_day_of_month(moment), 12, 0, 0);
	g_autoptr(GDateTime) next = g_date_time_add_days(noon, days + 1);
	g_autoptr(GDateTime) begin =
		g_date_time_new_local(g_date_time_get_year(next), g_date_time_get_month(next),
				      g_date_time_get_day_of_month(next), 0, 0, 0);

	return g_date_time_add_seconds(begin, -1);
}

/* NULL: it is no date. */
static GDateTime *
backup_date_read(const char *text, GTimeZone *zone)
{
	static const struct {
		const char *form, *rest;
	} forms[] = {{"dddd-dd-dd", "T00:00:00"}, {"dddd-dd-ddTdd:dd", ":59"}};
	g_autofree char *shape = g_strdup(text), *whole = NULL;
	g_autoptr(GDateTime) date = NULL;
	const char *rest = "";

	for (char *at = shape; *at; at++) {
		if (g_ascii_isdigit(*at))
			*at = 'd';
		else if (*at == ' ')
			*at = 'T';
	}
	for (guint i = 0; i < G_N_ELEMENTS(forms); i++) {
		if (strcmp(shape, forms[i].form) == 0)
			rest = forms[i].rest;
	}
	whole = g_strconcat(text, rest, NULL);
	if (strlen(text) > 10 && text[10] == ' ')
		whole[10] = 'T';
	date = g_date_time_new_from_iso8601(whole, zone);
	return date && *rest == 'T' ? backup_date_day_end(date, 0) : g_steal_pointer(&date);
}

bool
backup_date_parse(const char *text, uint64_t now, uint64_t *seconds, GError **error)
{
	g_autoptr(GTimeZone) zone = g_time_zone_new_local();
	g_autoptr(GDateTime) moment = backup_date_local(now);
	g_autoptr(GDateTime) date = NULL;

	if (strcmp(text, "today") == 0 || strcmp(text, "yesterday") == 0)
		date = backup_date_day_end(moment, *text == 'y' ? -1 : 0);
	else
		date = backup_date_read(text, zone);
	if (!date || g_date_time_to_unix(date) < 0)
		return failure(error, EINVAL,
			       "%s: must be the number of a backup, or a date, such as "
			       "2026-11-27, \"2026-11-27 18:00\", yesterday or today",
			       text);
	*seconds = (uint64_t)g_date_time_to_unix(date);
	return true;
}

int
backup_date_day(uint64_t seconds)
{
	g_autoptr(GDateTime) date = backup_date_local(seconds);

	return g_date_time_get_year(date) * 1000 + g_date_time_get_day_of_year(date);
}

int
backup_date_week(uint64_t seconds)
{
	g_autoptr(GDateTime) date = backup_date_local(seconds);

	return g_date_time_get_week_numbering_year(date) * 100 + g_date_time_get_week_of_year(date);
}
