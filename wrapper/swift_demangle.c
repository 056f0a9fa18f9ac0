/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loaded into nbdkit before anything else when the plugin was built with sanitizers.
 *
 * AddressSanitizer starts inside of the first malloc(), which in nbdkit is one of newlocale(),
 * called by the constructor of libp11-kit.  There it looks for the symbol swift_demangle; when
 * there is none, glibc (2.36) words an error message, and so unlocks the locale lock that
 * newlocale() holds: exit() then waits for that lock for ever.  With the symbol there is no
 * message.
 */
char *
swift_demangle(const char *name);

__attribute__((visibility("default"))) char *
swift_demangle(const char *name)
{
	(void)name;
	return (char *)0;
}
