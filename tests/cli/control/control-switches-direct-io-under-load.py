# SPDX-License-Identifier: BSD-3-Clause
"""Switches direct I/O off and on six times; after each switch, 200 more writes must complete.

    PROGRAM CONTROL
"""
import sys

from control import Control
from waiting import wait_until

control = Control(sys.argv[1])


def writes():
    return control.export()["counters"]["writes"]


for value in ["off", "on"] * 6:
    answer = control.ask(f"set direct-io={value}")
    assert answer.get("direct_io") is (value == "on"), answer
    assert control.export()["direct_io"] is (value == "on")
    wanted = writes() + 200
    wait_until(f"the load goes on with direct-io={value}", lambda: writes() >= wanted)
