/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The filters of system calls in a build without libseccomp: there are none.
 */
#include "server/sandbox/call_filter.h"

#include <errno.h>

int
call_filters_make(bool log, const char **reason)
{
	(void)log;
	*reason = "this nbdloopd was built without libseccomp (configure --with-seccomp)";
	return -EOPNOTSUPP;
}

void
call_filters_free(void)
{
}

int
call_filter_enter(unsigned int filter)
{
	(void)filter;
	return -EOPNOTSUPP;
}
