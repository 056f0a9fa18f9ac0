/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/exports_state.h"

#include <stdlib.h>

void
config_free(struct export_config *config)
{
	free(config->name);
	free(config->file);
	free(config->description);
	free(config);
}

void
source_free(struct source *source)
{
	image_close(source->image);
	free(source->traffic);
	config_free(source->config);
	free(source);
}

void
source_put(struct exports *exports, struct source *source)
{
	bool last;

	pthread_mutex_lock(&exports->mutex);
	last = --source->users == 0;
	pthread_mutex_unlock(&exports->mutex);
	if (last)
		source_free(source);
}

void
export_free(struct export *export)
{
	source_put(export->exports, export->source);
	free(export);
}

unsigned int
source_connections(const struct exports *exports, const struct source *source)
{
	unsigned int connections = 0;

	for (const struct export *export = exports->listed; export; export = export->next)
		connections += export->source == source ? export->served.connections : 0;
	for (const struct export *export = exports->retired; export; export = export->next)
		connections += export->source == source ? export->served.connections : 0;
	return connections;
}
