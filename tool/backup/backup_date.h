/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dates of backups, in this machine's time zone.
 */
#ifndef TOOL_BACKUP_BACKUP_DATE_H
#define TOOL_BACKUP_BACKUP_DATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* "2026-11-27 18:00:05".  `seconds`: since 1970.  Caller frees (g_free). */
char *
backup_date_text(uint64_t seconds);

/* The same for programs: "2026-11-27T18:00:05+01".  Caller frees (g_free). */
char *
backup_date_iso(uint64_t seconds);

/* Whether the text can only be meant as a date: it is no number. */
bool
backup_date_is(const char *text);

/* The last second, since 1970, of "yesterday", "today", "2026-11-27" (a day), "2026-11-27 18:00" (a
 * minute), or "2026-11-27 18:00:05", also with a "T" or a time zone.  `now`: seconds since 1970.
 * False with an error. */
bool
backup_date_parse(const char *text, uint64_t now, uint64_t *seconds, GError **error);

/* Numbers that are the same for all moments of a day, and of a week, which begins on Monday. */
int
backup_date_day(uint64_t seconds);
int
backup_date_week(uint64_t seconds);

#endif
