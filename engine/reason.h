/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reasons why the engine does without something, for status and log.
 */
#ifndef ENGINE_REASON_H
#define ENGINE_REASON_H

/* The longest reason, with its NUL. */
#define REASON_MAX 160

#endif
