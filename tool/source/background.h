/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process in the background, on which a device depends.
 */
#ifndef TOOL_SOURCE_BACKGROUND_H
#define TOOL_SOURCE_BACKGROUND_H

/* Leaves the terminal and the caller's files: standard input and output lead nowhere, and messages
 * go to the system log. */
void
background_enter(void);

#endif
