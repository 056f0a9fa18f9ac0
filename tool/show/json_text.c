/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/json_text.h"

void
json_text_print(FILE *out, JsonObject *object, bool pretty)
{
	g_autoptr(JsonGenerator) generator = json_generator_new();
	g_autoptr(JsonNode) root = json_node_init_object(json_node_alloc(), object);
	g_autofree char *text = NULL;

	json_generator_set_root(generator, root);
	json_generator_set_pretty(generator, pretty);
	json_generator_set_indent(generator, 3);
	text = json_generator_to_data(generator, NULL);
	fprintf(out, "%s\n", text);
}
