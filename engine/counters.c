/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/counters.h"

#define OPERATIONS(op_) "nbdloop_operations", "counter", NULL, "Operations on the image.", op_
#define BYTES(op_)                                                                                 \
	"nbdloop_transferred_bytes", "counter", "bytes", "Bytes read from the image or written.",  \
		op_
#define FIELD(counter_) ((counter_) * sizeof(uint64_t))

const struct figure_row counter_rows[COUNTERS] = {
	[COUNTER_READS] = {OPERATIONS("read"), "reads", FIELD(COUNTER_READS)},
	[COUNTER_READ_BYTES] = {BYTES("read"), "read_bytes", FIELD(COUNTER_READ_BYTES)},
	[COUNTER_WRITES] = {OPERATIONS("write"), "writes", FIELD(COUNTER_WRITES)},
	[COUNTER_WRITE_BYTES] = {BYTES("write"), "write_bytes", FIELD(COUNTER_WRITE_BYTES)},
	[COUNTER_FLUSHES] = {OPERATIONS("flush"), "flushes", FIELD(COUNTER_FLUSHES)},
	[COUNTER_DISCARDS] = {OPERATIONS("discard"), "discards", FIELD(COUNTER_DISCARDS)},
	[COUNTER_ZEROES] = {OPERATIONS("zero"), "zeroes", FIELD(COUNTER_ZEROES)},
	[COUNTER_ERRORS] = {"nbdloop_errors", "counter", NULL,
			    "Operations on the image that failed.", NULL, "errors",
			    FIELD(COUNTER_ERRORS)},
	[COUNTER_BOUNCED] = {"nbdloop_bounced_chunks", "counter", NULL,
			     "System operations through a buffer of the server's own.", NULL,
			     "bounced", FIELD(COUNTER_BOUNCED)},
	[COUNTER_READ_MODIFY_WRITES] =
		{"nbdloop_read_modify_writes", "counter", NULL,
		 "Blocks that were read because only a part of them was to be written.", NULL,
		 "read_modify_writes", FIELD(COUNTER_READ_MODIFY_WRITES)},
	[COUNTER_REGISTERED] = {"nbdloop_registered_operations", "counter", NULL,
				"Operations in memory that is registered with the kernel.", NULL,
				"registered", FIELD(COUNTER_REGISTERED)},
	[COUNTER_SHORT_TRANSFERS] = {"nbdloop_short_transfers", "counter", NULL,
				     "Transfers of fewer bytes than asked for.", NULL,
				     "short_transfers", FIELD(COUNTER_SHORT_TRANSFERS)},
	[COUNTER_RETRIES] = {"nbdloop_retries", "counter", NULL, "Attempts after EINTR or EAGAIN.",
			     NULL, "retries", FIELD(COUNTER_RETRIES)},
};
