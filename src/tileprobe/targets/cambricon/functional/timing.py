"""The seam to the simulator: how long the machine takes for a token, at a given length of context.

In: the model, the machine and the options its pages were laid out with. Out: a timer for `generate`. The
step is compiled once and run in the event-driven engine for every token; values never depend on it.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntAttr

from tileprobe.targets.cambricon.compile import Options, check_cache, compile_step
from tileprobe.targets.cambricon.encode import encode, the_step
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.functional.generate import Timer
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.pagemap import geometry_of
from tileprobe.targets.cambricon.upkeep import upkeep_of


def make_timer(model: Model, machine: Machine, options: Options) -> Timer:
    options = replace(options, lm_head=True, prefill=False, context=1)
    geometry, module = geometry_of(machine, options.mode), compile_step(model, machine, options)
    step = the_step(module)

    def timer(context: int) -> float:
        check_cache(model, machine, replace(options, context=context))
        step.context = IntAttr(context)  # the only thing in the compiled step that a longer context changes
        program = encode(module)
        upkeep = upkeep_of(machine, options, step, program, geometry, 1.0)
        worn = (upkeep.wear, upkeep.rewrites) if upkeep is not None else (None, 0.0)
        return launch(program, machine, geometry, None, 0, *worn).total_us

    return timer
