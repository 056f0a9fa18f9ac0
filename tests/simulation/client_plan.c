/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/client_plan.h"

struct client_plan client_plan;
