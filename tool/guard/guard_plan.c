/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_plan.h"

void
guard_plan_fini(struct guard_plan *plan)
{
	g_free(plan->source.place);
	if (plan->source.server_options)
		g_ptr_array_unref(plan->source.server_options);
	*plan = (struct guard_plan){.source.place = NULL};
}
