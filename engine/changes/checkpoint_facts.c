/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/checkpoint_facts.h"

#include <string.h>

bool
checkpoint_name_is_valid(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789+-.:_";
	size_t length = strlen(name);

	return length > 0 && length <= CHECKPOINT_NAME_MAX && strspn(name, allowed) == length;
}
