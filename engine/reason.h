/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reasons why the engine does not use a feature, for status and log.
 */
#ifndef ENGINE_REASON_H
#define ENGINE_REASON_H

/* Size of the longest reason, in bytes, with its NUL. */
#define REASON_MAX 160

#endif
