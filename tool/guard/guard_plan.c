/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_plan.h"

void
guard_plan_fini(struct guard_plan *plan)
{
	g_free(plan->upstream.place);
	if (plan->upstream.server_options)
		g_ptr_array_unref(plan->upstream.server_options);
	*plan = (struct guard_plan){.upstream.place = NULL};
}
