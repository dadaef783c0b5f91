"""What the age of the flash means for a run: options and a program in, how often pages are read again and rewritten.

The result is what the engine takes (`Wear`, rewrites of each page read) and, after the run, the figures of the report.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprobe.targets.cambricon.aging import (
    Age,
    Wear,
    life_days,
    parse_age,
    parts_of_rate,
    rewrites_per_read,
    wear_of,
)
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.dialect import LayersOp, StepOp
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import Run, launch
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry
from tileprobe.targets.cambricon.walk import gemvs_of

DAY_US = 86400e6


@dataclass(frozen=True)
class Upkeep:
    age: Age  # as it was given
    wear: Wear
    tokens_a_day: float
    tokens_a_step: float
    read: float  # pages that a step reads
    stored: float  # pages that hold something

    @property
    def rewrites(self) -> float:
        """That a page read stands for."""
        return rewrites_per_read(self.wear, self.tokens_a_day / self.tokens_a_step, self.stored / self.read)


def upkeep_of(
    machine: Machine,
    options: Options,
    step: StepOp,
    program: p.Program,
    geometry: Geometry,
    tokens_a_step: float,
) -> Upkeep | None:
    """None for a flash that never ages. Without a number of tokens a day the machine decodes without a pause, at the
    speed that it has when it never ages.
    """
    if not options.age:
        return None
    age = parse_age(options.age)
    wear = wear_of(machine, age)
    bodies = program.bodies
    pages = (bodies.computed + bodies.streamed)[program.matrices[:, p.BODY]]
    weights, read = pages[program.matrices[:, p.ROWS] > 0].sum(), float(pages.sum())
    stored = read + weights * (_stored_share(step, program) - 1.0)
    tokens = wear.age.tokens_a_day
    if not tokens:
        tokens = DAY_US / launch(program, machine, geometry).total_us * tokens_a_step
    return Upkeep(age, wear, tokens, tokens_a_step, read, stored)


def _stored_share(step: StepOp, program: p.Program) -> float:
    """Weights in flash for each that a step reads there: more than one where a mixture has experts that it does not
    meet.
    """
    stored = 0
    for g in gemvs_of(step):
        layers = g.parent_op()
        count = layers.count.data if isinstance(layers, LayersOp) else 1
        stored += g.rows.data * g.cols.data * count * (g.experts.of.data if g.experts is not None else 1)
    return stored / max(int((program.matrices[:, p.ROWS] * program.matrices[:, p.COLS]).sum()), 1)


def figures(machine: Machine, upkeep: Upkeep, run: Run) -> dict[str, float]:
    """For the report and its JSON; zero days of life stand for a flash that is not worn at all (`wears` 0)."""
    from tileprobe.targets.cambricon.engine import state as s

    counts, wear = run.state.upkeep.sum(axis=0), upkeep.wear
    steps = upkeep.tokens_a_day / upkeep.tokens_a_step
    days = life_days(machine, upkeep.age, steps, upkeep.read, upkeep.stored)
    base, retention, disturb = parts_of_rate(machine, wear.age)
    planes = machine.dies * machine.flash.planes_per_die
    wears = days != float("inf")
    return {
        "cycles": wear.age.cycles, "days": wear.age.days, "celsius": wear.age.celsius, "reads": wear.age.reads,
        "reclaim_reads": wear.age.reclaim, "refresh_days": wear.age.refresh,
        "bit_error_rate": wear.rate, "by_wear": base, "by_retention": retention, "by_disturb": disturb,
        "retries": float(counts[s.N_RETRIES]), "retries_per_page": float(counts[s.N_RETRIES] / upkeep.read),
        "lost": float(counts[s.N_LOST]), "rewrites": float(counts[s.N_REWRITES]), "erases": float(counts[s.N_ERASES]),
        "planes_busy": float(counts[s.UPKEEP_US] / (run.total_us * planes)),
        "endurance_cycles": float(machine.flash.endurance_cycles),
        "tokens_a_day": upkeep.tokens_a_day, "wears": float(wears), "life_days": days if wears else 0.0,
    }  # fmt: skip
