/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What somebody should hear about files that TLS can use all the same: that others can read a
 * secret, or that a certificate or a list is only valid at other times.
 */
#ifndef NBD_TLS_CAUTIONS_H
#define NBD_TLS_CAUTIONS_H

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

struct tls_caution {
	char *subject;         /* "PATH: the certificate" */
	const char *otherwise; /* with dates: what happens at other times; static */
	time_t begin, end;     /* both 0: it has no dates, and `subject` is the whole sentence */
};

struct tls_cautions {
	struct tls_caution *all;
	size_t count;
};

/* Notes that the secret in the file has this mode, if that is a bad one. 0 or -ENOMEM. */
int
tls_cautions_add_secret(struct tls_cautions *cautions, const char *path, mode_t mode);

/* Notes when a thing is valid. `subject` is taken over (NULL: out of memory). 0 or -ENOMEM. */
int
tls_cautions_add_dates(struct tls_cautions *cautions, char *subject, const char *otherwise,
		       time_t begin, time_t end);

/* Logs what became true after `since`, by `now`; `since` 0: all that is true. Returns when to call
 * it again, with `now` as `since`; 0: never. */
time_t
tls_cautions_log(const struct tls_cautions *cautions, time_t since, time_t now);

/* "2026-11-28 05:30:16 UTC". */
#define TLS_DATE_SIZE 32
const char *
tls_date(time_t time, char text[TLS_DATE_SIZE]);

void
tls_cautions_fini(struct tls_cautions *cautions);

#endif
