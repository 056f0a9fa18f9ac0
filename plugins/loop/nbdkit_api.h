/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit's plugin API, in the version that all files of the plugin use.
 */
#ifndef PLUGINS_LOOP_NBDKIT_API_H
#define PLUGINS_LOOP_NBDKIT_API_H

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

/* clang warns because NBDKIT_REGISTER_PLUGIN() defines it without a prototype. */
NBDKIT_DLL_PUBLIC struct nbdkit_plugin *
plugin_init(void);

#endif
