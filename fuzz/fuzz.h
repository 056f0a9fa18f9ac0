/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a fuzzer is: one function for one input surface.  libFuzzer calls it with inputs that it
 * makes up (make fuzz), replay.c with those in files (make check).
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As assert(), but never compiled out: this is what is being tested. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
