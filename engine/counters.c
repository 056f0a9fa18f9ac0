/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/counters.h"

const char *const counter_names[COUNTERS] = {
	[COUNTER_READS] = "reads",
	[COUNTER_READ_BYTES] = "read_bytes",
	[COUNTER_WRITES] = "writes",
	[COUNTER_WRITE_BYTES] = "write_bytes",
	[COUNTER_FLUSHES] = "flushes",
	[COUNTER_DISCARDS] = "discards",
	[COUNTER_ZEROES] = "zeroes",
	[COUNTER_ERRORS] = "errors",
	[COUNTER_BOUNCED] = "bounced",
	[COUNTER_READ_MODIFY_WRITES] = "read_modify_writes",
	[COUNTER_SHORT_TRANSFERS] = "short_transfers",
	[COUNTER_RETRIES] = "retries",
};
