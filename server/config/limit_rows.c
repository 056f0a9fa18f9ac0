/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of an export's limits.
 */
#include "server/config/server_config.h"

#define LIMIT(scope_, name_) offsetof(struct export_config, limit_options[scope_].name_)

const struct option_row limit_option_rows[] = {
	{
		.name = "iops-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_EXPORT, rates[LIMIT_IOPS]),
		.arg = "LIMIT",
		.help = "operations per second, such as 1000 or read:1000,write:500 (default: no limit)",
		.manual =
			"The most operations per second of all clients of the export together:\n"
			"C<1000>, or C<read:1000 write:500> with separate limits for reads and for\n"
			"changes.  C<burst:5000> after it: so many at once, after a rest.  See\n"
			"L</Limits>.\n",
	},
	{
		.name = "bandwidth-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_EXPORT, rates[LIMIT_BANDWIDTH]),
		.arg = "LIMIT",
		.help = "bytes per second, such as 100M or read:100M,write:50M (default: no limit)",
		.manual = "The same in bytes per second: C<100M>, or C<read:100M write:50M>, and\n"
			  "C<burst:1G>.  M is MiB here, as in all sizes.  At least C<4k>.  See\n"
			  "L</Limits>.\n",
	},
	{
		.name = "connections-limit",
		.type = OPTION_UINT,
		.field = LIMIT(LIMIT_EXPORT, connections),
		.initial = "0",
		.max = CONNECTIONS_LIMIT_MAX,
		.arg = "N",
		.help = "maximum number of connections to the export; 0 means no limit",
		.manual =
			"The maximum number of connections to the export.  Further clients that\n"
			"choose it are refused, with a log message.  0 means no limit other than\n"
			"I<max-connections>.\n",
	},
	{
		.name = "client-iops-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_CLIENT, rates[LIMIT_IOPS]),
		.arg = "LIMIT",
		.help = "the same for each client of the export by itself (default: no limit)",
		.manual =
			"As I<iops-limit>, but for each client by itself: all connections of one\n"
			"client to the export together.  What counts as one client is in\n"
			"L</Limits>.\n",
	},
	{
		.name = "client-bandwidth-limit",
		.type = OPTION_STRING,
		.field = LIMIT(LIMIT_CLIENT, rates[LIMIT_BANDWIDTH]),
		.arg = "LIMIT",
		.help = "the same for each client of the export by itself (default: no limit)",
		.manual = "As I<bandwidth-limit>, but for each client by itself.\n",
	},
	{
		.name = "client-connections-limit",
		.type = OPTION_UINT,
		.field = LIMIT(LIMIT_CLIENT, connections),
		.initial = "0",
		.max = CONNECTIONS_LIMIT_MAX,
		.arg = "N",
		.help = "maximum number of connections of each client to the export; 0 means no limit",
		.manual = "The maximum number of connections of each client to the export and its\n"
			  "snapshots.  0 means no limit of their own.\n",
	},
	{.name = NULL},
};
