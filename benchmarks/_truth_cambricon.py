"""Cases of `truth.py` for the critical path of Cambricon-LLM: how much of a step waits for its channels, and for its
cores, against what a thousandth more of either brings when the same commands run."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

import tileprobe
from benchmarks._truth import SIMULATED, Case, Pair
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.dialect import MachineOp
from tileprobe.targets.cambricon.machine import Machine, load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate, simulate_module
from tileprobe.targets.cambricon.what_if import faster
from tileprobe.tools.path import path_of
from tileprobe.trace import Trace

MODEL = load_model("opt-6.7b")
MORE = 1.001  # so little that nothing else is waited for instead
PARTS = {"channel": ("channel bandwidth", "commands"), "core": ("cores in the flash",)}
MUCH = 0.1  # of a step: a part that is worth a figure
WHOLE, SAMPLED = 6_000_000, 400_000  # intervals: all of a step, and some of its layers


def waited(machine: Machine, options: Options, parts: tuple[str, ...]) -> float:
    """The share of a step that would be gone if these took no time, as far as a straight line reaches: with the
    commands that the machine as it is was compiled for."""
    before = simulate_module(compile_step(MODEL, machine, options)).latency_ms
    gone = 0.0
    for part in parts:
        module, other = (
            compile_step(MODEL, made, options) for made in (machine, faster(machine, part, MORE))
        )
        mine, its = (next(op for op in one.walk() if isinstance(op, MachineOp)) for one in (module, other))
        its.detach()
        module.body.block.insert_op_before(its, mine)
        mine.detach()
        gone += (1 - simulate_module(module).latency_ms / before) / (1 - 1 / MORE)
    return gone


def on_path(trace: Trace) -> dict[str, float]:
    """Of each kind of unit its share of the critical path, as far as that is known."""
    path = path_of(trace, trace.kernels[-1])
    assert path is not None
    kinds = {unit.id: unit.kind for unit in trace.units}
    lasted = ((pl.col("stop_ns") - pl.col("start_ns")) * pl.col("stands")).alias("ns")
    rows = path.rows.filter(pl.col("region") >= 0).select("unit", lasted)
    rows = rows.with_columns(pl.col("unit").replace_strict(kinds, return_dtype=pl.String))
    whole = float(rows["ns"].sum())
    return {kind: ns / whole for kind, ns in rows.group_by("unit").agg(pl.col("ns").sum()).iter_rows()}


def _asked(size: str, options: Options, intervals: int) -> Callable[[], list[Pair]]:
    def run() -> list[Pair]:
        machine = load_machine(f"cambricon:{size}")
        with tileprobe.profile(tools=["units"], intervals=intervals) as session:
            simulate(MODEL, machine, options)
        found = on_path(session.trace)
        planted = {kind: waited(machine, options, parts) for kind, parts in PARTS.items()}
        return [
            Pair(f"waited for: {kind}", 100 * planted[kind], 100 * found.get(kind, 0.0), "%")
            for kind in PARTS
            if planted[kind] > MUCH
        ]

    return run


_OPTIONS = {
    "as it is": Options(),
    "no slice control": Options(slicing=False),
    "flash only": Options(mode="flash-only"),
    "NPU only": Options(mode="npu-only"),
}
CASES = tuple(
    Case(f"{name}, {said}", "critical-path", f"cambricon:{size}", _asked(size, options, intervals), limit)
    for size, said, intervals, limit in (
        ("m", "whole", WHOLE, SIMULATED),
        ("l", "whole", WHOLE, SIMULATED),
        ("m", "some layers", SAMPLED, SIMULATED),
    )
    for name, options in _OPTIONS.items()
)
