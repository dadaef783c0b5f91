"""Constants that a run uses and that no source states: what its report has to say.

In: the machine with its sources, options and the step. Out: names with their values and what stands beside them in the
device's file. `[D]` is a choice of ours, `second hand` a number that was read elsewhere than where it was measured;
what the user gave is the user's.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tileprobe.targets.cambricon.compile import Options, cache_of, mode_of
from tileprobe.targets.cambricon.dialect import AttentionOp, StepOp
from tileprobe.targets.cambricon.machine import SECTIONS, Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY

CHOICE, SECOND_HAND = "[D]", "second hand"


def assumptions(machine: Machine, options: Options, step: StepOp) -> dict[str, dict[str, Any]]:
    """section.constant -> value and source, of those that this run uses."""
    paged = any(isinstance(op, AttentionOp) and op.flash.data for op in step.walk())
    return _assumed(machine, options, step.mode.data, paged)


def assumptions_before(model: Model, machine: Machine, options: Options) -> dict[str, dict[str, Any]]:
    """The same of a run that need not have been: nothing is compiled."""
    return _assumed(machine, options, mode_of(options), cache_of(model, machine, options).spilled > 0)


def _assumed(machine: Machine, options: Options, mode: str, paged: bool) -> dict[str, dict[str, Any]]:
    idle = _idle(options, mode, paged)
    return {
        name: {"value": _value(machine, name), "source": source}
        for name, source in machine.sources.items()
        if (source.startswith(CHOICE) or SECOND_HAND in source)
        and name not in idle
        and name.partition(".")[0] not in idle
    }


def spelled(name: str) -> str:
    """As `--set` takes it: the constant alone where only one section has it."""
    section, _, constant = name.partition(".")
    owners = sum(f.name == constant for cls in SECTIONS.values() for f in fields(cls))
    return constant if owners == 1 else f"{section}_{constant}"


def _value(machine: Machine, name: str) -> Any:
    section, _, constant = name.partition(".")
    return getattr(getattr(machine, section), constant)


def _idle(options: Options, mode: str, paged: bool) -> set[str]:
    """Sections and constants that this run has no use for."""
    other = "w8a8" if options.weights == "w4a16" else "w4a16"
    idle = {f"core.partial_sum_bytes_{other}", "area"}
    if not options.age:
        idle |= {"aging", "flash.erase_us", "flash.pages_per_block"}
    if not options.age and not paged:  # nothing is written
        idle |= {"flash.program_us", "flash.endurance_cycles", "flash.pages_per_plane"}
    if options.packages == 1:
        idle |= {"packages", "energy.pcie_pj_per_bit"}
    if not options.slicing or mode == FLASH_ONLY:
        idle |= {"flash.slice_bytes", "flash.slice_command_us"}
    return idle
