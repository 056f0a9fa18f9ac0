/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/server_command.h"

#include "engine/backing/image_kinds.h"

#include <string.h>

const char *const server_kinds[] = {
	[SERVER_NBDLOOPD] = "nbdloopd",
	[SERVER_NBDKIT] = "nbdkit",
	NULL,
};

char *
server_command_program(enum server_kind kind)
{
	char *path = g_find_program_in_path(server_kinds[kind]);

	return path ? path : g_build_filename(SBINDIR, server_kinds[kind], NULL);
}

G_GNUC_PRINTF(2, 3)
static void
add_word(GStrvBuilder *words, const char *format, ...)
{
	g_autofree char *word = NULL;
	va_list values;

	va_start(values, format);
	word = g_strdup_vprintf(format, values);
	va_end(values);
	g_strv_builder_add(words, word);
}

/* Whether an option is not for the image, but for the one that the device had before: of another
 * kind. */
static bool
is_foreign(const struct server_command *command, const char *option)
{
	const char *name = option + strlen("--");
	g_autofree char *alone = g_strndup(name, strcspn(name, "="));
	const struct image_kind *kind = image_kind_of_option(alone);

	return kind && kind != image_kind_of(command->image);
}

/* So that the server has the image for itself. */
static void
add_lock(GStrvBuilder *words, const struct server_command *command, const char *dashes)
{
	const struct image_kind *kind = image_kind_of(command->image);

	if (kind->lock)
		add_word(words, "%s%s", dashes, kind->lock);
	if (kind->fence && command->ceph_fence)
		add_word(words, "%s%s=%s", dashes, kind->fence, command->ceph_fence);
}

static void
add_nbdloopd(GStrvBuilder *words, const struct server_command *command)
{
	add_word(words, "--fd-from=%u", SERVER_SOCKET);
	add_word(words, "--notify-fd=%u", SERVER_EVENTS);
	if (command->control)
		add_word(words, "--control=%s", command->control);
	add_word(words, "--direct-io=%s", command->direct_io);
	/* Its client is this machine's kernel. To make a sandbox takes longer than the rest of its
	 * start. */
	g_strv_builder_add(words, "--sandbox=off");
	for (guint i = 0; i < command->options->len; i++) {
		if (!is_foreign(command, g_ptr_array_index(command->options, i)))
			g_strv_builder_add(words, g_ptr_array_index(command->options, i));
	}
	if (command->iops_limit)
		add_word(words, "--iops-limit=%s", command->iops_limit);
	if (command->bandwidth_limit)
		add_word(words, "--bandwidth-limit=%s", command->bandwidth_limit);
	if (command->read_only)
		g_strv_builder_add(words, "--read-only");
	if (command->force)
		g_strv_builder_add(words, "--force");
	add_lock(words, command, "--");
	g_strv_builder_add(words, "--");
	g_strv_builder_add(words, command->image);
}

/* Whether an option is one of nbdkit's own, which has the same form there; all others are for the
 * plugin. */
static bool
is_nbdkits(const char *option)
{
	return g_str_has_prefix(option, "--threads=") || strcmp(option, "--read-only") == 0;
}

static void
add_nbdkit(GStrvBuilder *words, const struct server_command *command)
{
	g_strv_builder_add_many(words, "--foreground", "--filter=exitlast", NULL);
	for (guint i = 0; i < command->options->len; i++) {
		if (is_nbdkits(g_ptr_array_index(command->options, i)))
			g_strv_builder_add(words, g_ptr_array_index(command->options, i));
	}
	if (command->read_only)
		g_strv_builder_add(words, "--read-only");
	g_strv_builder_add(words, "loop");
	add_word(words, "file=%s", command->image);
	add_word(words, "notify-fd=%u", SERVER_EVENTS);
	if (command->control)
		add_word(words, "control=%s", command->control);
	add_word(words, "direct-io=%s", command->direct_io);
	if (command->force)
		g_strv_builder_add(words, "force=on");
	add_lock(words, command, "");
	for (guint i = 0; i < command->options->len; i++) {
		const char *option = g_ptr_array_index(command->options, i);

		if (!is_nbdkits(option) && !is_foreign(command, option))
			add_word(words, "%s%s", option + strlen("--"),
				 strchr(option, '=') ? "" : "=on");
	}
}

char **
server_command_words(const struct server_command *command)
{
	g_autofree char *program = server_command_program(command->kind);
	GStrvBuilder *words = g_strv_builder_new();
	char **all;

	g_strv_builder_add(words, program);
	/* argv[0], with the mark that tool/guard/guard.c explains. */
	add_word(words, "@%s", server_kinds[command->kind]);
	if (command->kind == SERVER_NBDKIT)
		add_nbdkit(words, command);
	else
		add_nbdloopd(words, command);
	all = g_strv_builder_end(words);
	g_strv_builder_unref(words);
	return all;
}
