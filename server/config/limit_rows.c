/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of an export's limits.
 */
#include "server/config/server_config.h"

#define EXPORT(name_) offsetof(struct export_config, name_)

const struct option_row limit_option_rows[] = {
	{
		.name = "iops-limit",
		.type = OPTION_STRING,
		.field = EXPORT(iops_limit),
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
		.field = EXPORT(bandwidth_limit),
		.arg = "LIMIT",
		.help = "bytes per second, such as 100M or read:100M,write:50M (default: no limit)",
		.manual = "The same in bytes per second: C<100M>, or C<read:100M write:50M>, and\n"
			  "C<burst:1G>.  M is MiB here, as in all sizes.  At least C<4k>.  See\n"
			  "L</Limits>.\n",
	},
	{
		.name = "connections-limit",
		.type = OPTION_UINT,
		.field = EXPORT(connections_limit),
		.initial = "0",
		.max = CONNECTIONS_LIMIT_MAX,
		.arg = "N",
		.help = "maximum number of connections to the export; 0 means no limit",
		.manual =
			"The maximum number of connections to the export.  Further clients that\n"
			"choose it are refused, with a log message.  0 means no limit other than\n"
			"I<max-connections>.\n",
	},
	{.name = NULL},
};
