/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs under test, as the environment names them, and what the plugin says about itself.
 */
#ifndef TESTS_NBD_FACTS_H
#define TESTS_NBD_FACTS_H

/* The plugin's path, or its short name: $LOOP_PLUGIN, else "loop". */
const char *
facts_plugin(void);

/* The program: $NBDKIT, else "nbdkit". */
const char *
facts_nbdkit(void);

/*
 * The plugin's facts about itself and this machine, as "key=value" lines: the engines are the same
 * for nbdloopd. NULL, with a message on standard error, if the plugin can't be asked. The caller
 * frees the text.
 */
char *
facts_read(void);

#endif
