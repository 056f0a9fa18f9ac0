/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit's plugin API, in the one version that all files of the plugin use.
 */
#ifndef PLUGINS_LOOP_NBDKIT_API_H
#define PLUGINS_LOOP_NBDKIT_API_H

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#endif
