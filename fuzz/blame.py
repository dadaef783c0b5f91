"""Which half is wrong, scheduling or code generation: asked of the interpreter of scheduled IR, where there is one.

Runs in a worker, since what it explains may crash.
"""

from __future__ import annotations

from fuzz.case import Case
from fuzz.load import loaded
from fuzz.target import place


def blame(case: Case) -> str:
    """A sentence, or nothing when there is nobody to ask."""
    try:
        from tileprobe.targets.cpu.interpret import (  # pyright: ignore[reportMissingImports]
            explain_difference,
        )
    except ImportError:
        return ""
    _, arguments = place(case, at_end=True)
    with loaded(case.source) as module:
        return str(explain_difference(module.kernel, (case.grid,), arguments))
