/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/backup_metrics.h"

#include "tool/backup/backup_state.h"
#include "tool/backup/chain.h"
#include "tool/backup/durable.h"

#include <inttypes.h>
#include <sys/stat.h>

/* ---- the target */

static void
metrics_note_chain(struct backup_metrics *metrics)
{
	g_autoptr(GPtrArray) links = chain_read(metrics->target, NULL);

	if (!links || !chain_read_ends(links, NULL))
		return;
	chain_remove_merged(links);
	metrics->has_count = true;
	metrics->count = links->len;
	if (links->len) {
		const struct chain_link *last = links->pdata[links->len - 1];

		metrics->last_good = last->header.seconds;
	}
}

/* Returns whether the target is what its last backup left there; of an export, nobody knows. */
static bool
metrics_target_is_whole(const char *target, const struct backup_state *state, bool may_be_export)
{
	struct stat st;

	if (stat(target, &st) < 0)
		return may_be_export;
	return !S_ISREG(st.st_mode) || backup_state_is_of_file(state, &st);
}

void
backup_metrics_note_target(struct backup_metrics *metrics, const char *state)
{
	struct backup_state BACKUP_STATE_CLEANUP read = {.source = NULL};
	g_autofree char *beside = g_strconcat(metrics->target, ".state", NULL);

	/* What cannot be read is no good backup: the alert is right. */
	if (g_file_test(metrics->target, G_FILE_TEST_IS_DIR))
		metrics_note_chain(metrics);
	else if (backup_state_read(&read, state ? state : beside, NULL) && read.complete &&
		 metrics_target_is_whole(metrics->target, &read, state != NULL))
		metrics->last_good = read.seconds;
}

/* ---- the file */

/* The text in quotes. */
static void
metrics_add_quoted(GString *text, const char *value)
{
	g_autofree char *valid = g_utf8_make_valid(value, -1);

	g_string_append_c(text, '"');
	for (const char *at = valid; *at; at++) {
		if (*at == '\n')
			g_string_append(text, "\\n");
		else if (*at == '"' || *at == '\\')
			g_string_append_printf(text, "\\%c", *at);
		else
			g_string_append_c(text, *at);
	}
	g_string_append_c(text, '"');
}

char *
backup_metrics_text(const struct backup_metrics *metrics)
{
	const struct {
		const char *name, *help;
		uint64_t value;
		bool left_out;
	} all[] = {
		{"last_good_timestamp_seconds",
		 "When the last good backup was begun; 0: there is none.", metrics->last_good,
		 false},
		{"last_run_timestamp_seconds", "When the last backup ended, good or not.",
		 metrics->ended, false},
		{"last_run_failed", "1 if the last backup failed.", metrics->failed, false},
		{"last_run_duration_seconds", "How long the last backup took.",
		 metrics->ended > metrics->begun ? metrics->ended - metrics->begun : 0, false},
		{"last_run_data_bytes", "Bytes that the last backup copied.", metrics->data, false},
		{"kept", "Backups in the directory.", metrics->count, !metrics->has_count},
	};
	GString *text = g_string_new(NULL);

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		if (all[i].left_out)
			continue;
		g_string_append_printf(text,
				       "# HELP nbdloop_backup_%s %s\n"
				       "# TYPE nbdloop_backup_%s gauge\n"
				       "nbdloop_backup_%s{source=",
				       all[i].name, all[i].help, all[i].name, all[i].name);
		metrics_add_quoted(text, metrics->source);
		g_string_append(text, ",target=");
		metrics_add_quoted(text, metrics->target);
		g_string_append_printf(text, "} %" PRIu64 "\n", all[i].value);
	}
	return g_string_free(text, FALSE);
}

bool
backup_metrics_write(const struct backup_metrics *metrics, const char *path, GError **error)
{
	g_autofree char *text = backup_metrics_text(metrics);

	return durable_write(path, text, 0644, error);
}
