/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/cautions.h"

#include "common/log.h"
#include "common/secret_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int
cautions_add(struct tls_cautions *cautions, const struct tls_caution *caution)
{
	struct tls_caution *more =
		caution->subject ? reallocarray(cautions->all, cautions->count + 1, sizeof(*more))
				 : NULL;

	if (!more) {
		free(caution->subject);
		return -ENOMEM;
	}
	cautions->all = more;
	more[cautions->count++] = *caution;
	return 0;
}

int
tls_cautions_add_secret(struct tls_cautions *cautions, const char *path, mode_t mode)
{
	struct tls_caution caution = {0};

	if (!SECRET_FILE_IS_OPEN(mode))
		return 0;
	if (asprintf(&caution.subject, "%s: " SECRET_FILE_OPEN, path, (unsigned int)mode, path) < 0)
		caution.subject = NULL;
	return cautions_add(cautions, &caution);
}

int
tls_cautions_add_dates(struct tls_cautions *cautions, char *subject, const char *otherwise,
		       time_t begin, time_t end)
{
	return cautions_add(cautions, &(struct tls_caution){subject, otherwise, begin, end});
}

const char *
tls_date(time_t time, char text[TLS_DATE_SIZE])
{
	struct tm tm;

	text[0] = '\0';
	if (gmtime_r(&time, &tm))
		strftime(text, TLS_DATE_SIZE, "%Y-%m-%d %H:%M:%S UTC", &tm);
	return text;
}

static void
log_one(const struct tls_caution *caution, time_t since, time_t now)
{
	char date[TLS_DATE_SIZE];

	if (!caution->begin && !caution->end) {
		if (since == 0)
			log_warning("%s", caution->subject);
	} else if (since == 0 && now < caution->begin) {
		log_warning("%s is not valid before %s: %s", caution->subject,
			    tls_date(caution->begin, date), caution->otherwise);
	} else if (since <= caution->end && caution->end < now) {
		log_warning("%s has expired, on %s: %s", caution->subject,
			    tls_date(caution->end, date), caution->otherwise);
	}
}

time_t
tls_cautions_log(const struct tls_cautions *cautions, time_t since, time_t now)
{
	time_t next = 0;

	for (size_t i = 0; i < cautions->count; i++) {
		const struct tls_caution *caution = &cautions->all[i];

		log_one(caution, since, now);
		/* The last second still counts as valid. */
		if (caution->end >= now && (next == 0 || caution->end + 1 < next))
			next = caution->end + 1;
	}
	return next;
}

void
tls_cautions_fini(struct tls_cautions *cautions)
{
	for (size_t i = 0; i < cautions->count; i++)
		free(cautions->all[i].subject);
	free(cautions->all);
	*cautions = (struct tls_cautions){0};
}
