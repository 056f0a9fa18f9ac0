/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay_<surface> FILE...: gives the files to a fuzzer, one after the other.  For seeds and for
 * what a fuzzer found, with any compiler and in a debugger.
 */
#include "fuzz/fuzz.h"

#include "common/cleanup.h"

/* More than any input of libFuzzer's. */
#define INPUT_MAX (1u << 20)

static int
replay_file(const char *path)
{
	/* As large as the input, so that a sanitizer sees what is read behind it. */
	uint8_t *CLEANUP_FREE bytes = malloc(INPUT_MAX);
	FILE *file = fopen(path, "rb");
	uint8_t *input;
	size_t size;

	if (!file || !bytes) {
		perror(path);
		return -1;
	}
	size = fread(bytes, 1, INPUT_MAX, file);
	fclose(file);
	input = size ? realloc(bytes, size) : bytes;
	bytes = input ? input : bytes;
	LLVMFuzzerTestOneInput(bytes, size);
	return 0;
}

int
main(int argc, char **argv)
{
	int r = argc < 2 ? -1 : 0;

	for (int i = 1; i < argc; i++)
		if (replay_file(argv[i]))
			r = -1;
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
