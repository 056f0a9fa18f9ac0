/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/remains.h"

#include "tests/simulation/descriptor.h"
#include "tests/simulation/io_op.h"
#include "tests/simulation/kaio.h"
#include "tests/simulation/memory.h"
#include "tests/simulation/process.h"
#include "tests/simulation/stdio.h"
#include "tests/simulation/trace.h"

#include <stdlib.h>

void
remains_drop(struct process *process)
{
	const bool well = process->well;

	io_ops_drop(process);
	kaio_drop(process);
	stream_files_close(process, well);
	for (int fd = 0; fd < PROCESS_FILES; fd++) {
		if (!process->files[fd])
			continue;
		if (well)
			trace_fail("the server ended and left descriptor %d, %s", fd,
				   process->files[fd]->kind->name);
		descriptor_close(process, fd);
	}
	memory_drop(process, well);
	free(process);
}
