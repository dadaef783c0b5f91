"""Which half is wrong, scheduling or code generation: asked of the interpreter of scheduled IR.

Runs in a worker, since what it explains may crash.
"""

from __future__ import annotations

from fuzz.case import Case
from fuzz.load import loaded
from fuzz.target import place
from tileprobe.targets.cpu.interpret import explain_difference


def blame(case: Case) -> str:
    """A sentence that names the half."""
    _, arguments = place(case, at_end=True)
    with loaded(case.source) as module:
        meta = {"enable_fp_fusion": False}
        return explain_difference(module.kernel, (case.grid,), arguments, meta).sentence
