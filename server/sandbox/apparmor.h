/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AppArmor: the profile that the service's manager has put this process under.  nbdloopd itself
 * neither loads nor changes one.
 */
#ifndef SERVER_SANDBOX_APPARMOR_H
#define SERVER_SANDBOX_APPARMOR_H

#include <stdbool.h>

/* Bytes of a profile's name, with the zero at its end; a longer one is cut. */
#define APPARMOR_NAME_MAX 128

struct apparmor {
	char profile[APPARMOR_NAME_MAX];
	char mode[32]; /* "enforce", "complain" or another one of the kernel's words */
};

/* Returns whether there is a profile. */
bool
apparmor_find(struct apparmor *found);

#endif
