"""Which half is wrong: scheduling or code generation. A place for the interpreter of the scheduled IR.

`tileprobe.targets.cpu.interpret` runs the scheduled IR itself. Where it agrees with the oracle, the machine code
is wrong; where it agrees with the machine code, the schedule is.
"""

from __future__ import annotations

import importlib.util

from fuzz.case import Case


def blame(case: Case) -> str:
    """ "schedule", "codegen", or nothing while there is nothing to ask."""
    if importlib.util.find_spec("tileprobe.targets.cpu.interpret") is None:
        return ""
    return ""
