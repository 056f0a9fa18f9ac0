/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/retention.h"

#include "tool/backup/backup_date.h"

bool
retention_is_wanted(const struct retention *retention)
{
	return retention->last || retention->daily || retention->weekly;
}

/* Keeps the newest backup of each of so many periods that have one. */
static void
retention_keep_periods(unsigned int periods, int (*period_of)(uint64_t seconds),
		       const uint64_t *seconds, size_t count, bool *keep)
{
	int last = -1;

	for (size_t i = count; i-- > 0 && periods > 0;) {
		const int period = period_of(seconds[i]);

		if (period == last)
			continue;
		last = period;
		keep[i] = true;
		periods--;
	}
}

void
retention_choose(const struct retention *retention, const uint64_t *seconds, size_t count,
		 bool *keep)
{
	for (size_t i = 0; i < count; i++)
		keep[i] = !retention_is_wanted(retention) || count - i <= retention->last ||
			  i == count - 1;
	retention_keep_periods(retention->daily, backup_date_day, seconds, count, keep);
	retention_keep_periods(retention->weekly, backup_date_week, seconds, count, keep);
}
