"""What a kernel did on a simulated GPU, exactly, with no probe in it: its loops and source lines, warp by warp.

In come a decoded kernel and the log of a launch; out go intervals. A warp issues in order, so its time is that of its
instructions one after another: what lies between two of them is the time of the second, which had to wait. Instructions
belong to source lines by the cubin's table. Loops are known by the branches that go back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.ir.machine import Unit
from tileprobe.ir.regions import Region
from tileprobe.targets.base import Exact
from tileprobe.targets.gpu.units import unit_of
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.timing.causes import by_warp, handed_over
from tileprobe.targets.simgpu.timing.chip import Timed, by_line
from tileprobe.targets.simgpu.timing.flops import issued_flops, of_tensor_cores
from tileprobe.targets.simgpu.timing.loops import Loop, loops_of, opcode_of

# What a line mostly does, by the units that its instructions go to; the first that is there counts.
_WORDS = {
    "tensor core": "dot", "async copy": "copy", "global memory": "global memory", "shared memory": "shared memory",
    "shuffle": "shuffle", "local memory": "spills", "special function": "special functions", "float": "arithmetic",
    "synchronisation": "wait",
}  # fmt: skip


@dataclass
class _Tree:
    """The regions of a kernel, and which an instruction belongs to."""

    regions: list[Region]
    loops: list[
        tuple[Loop, np.ndarray, int, int]
    ]  # with its instructions, its region and that of its iterations
    of: np.ndarray  # by instruction
    inner: np.ndarray  # by instruction: which loop is the innermost around it, or -1


def _tree(program: Program, name: str) -> _Tree:
    count = len(program.texts)
    known = [int(line) for line in program.lines if line]
    file = program.file_names[program.files[0]] if len(program.files) else ""
    regions = [Region(0, name, "kernel", None, 0, file, min(known, default=0), max(known, default=0))]
    parent, inner = np.zeros(count, np.int64), np.full(count, -1)
    loops: list[tuple[Loop, np.ndarray, int, int]] = []
    for loop in loops_of(program):
        around = int(parent[loop.head])
        depth, number = regions[around].depth + 1, len(regions)
        body = np.zeros(count, bool)
        body[sorted(loop.body)] = True
        lines = {int(line) for line in program.lines[body] if line}
        span = (program.file_names[program.files[loop.branch]], min(lines, default=0), max(lines, default=0))
        named = f"loop @ {program.lines[loop.branch]}"
        regions.append(Region(number, named, "loop", around, 0, *span, depth))
        regions.append(Region(number + 1, "iteration", "iteration", number, 0, *span, depth + 1))
        parent[body], inner[body] = number + 1, len(loops)
        loops.append((loop, body, number, number + 1))
    of = np.zeros(count, np.int64)
    keys: dict[tuple[int, int, int], list[int]] = {}
    for n in range(count):
        if program.lines[n]:
            keys.setdefault((int(parent[n]), int(program.files[n]), int(program.lines[n])), []).append(n)
    for (around, where, line), mine in sorted(keys.items(), key=lambda item: item[1][0]):
        there = {unit_of(opcode_of(program.texts[n])) for n in mine}
        word = next((word for unit, word in _WORDS.items() if unit in there), "line")
        number, held = len(regions), program.file_names[where]
        regions.append(
            Region(number, f"{word} @ {line}", word, around, 0, held, line, line, regions[around].depth + 1)
        )
        of[mine] = number
    of[of == 0] = parent[of == 0]
    return _Tree(regions, loops, of, inner)


def exact(
    program: Program, name: str, took: Timed, room: int, base: int, ns: float, grid: tuple[int, ...]
) -> Exact:
    """A launch that took so many nanoseconds, from the cycle `base` on; at most about `room` intervals."""
    assert took.log is not None
    tree = _tree(program, name)
    logs = {sm: by_warp(events) for sm, events in sorted(took.log.events.items()) if len(events)}
    pieces = [_intervals(tree, events, sm) for sm, events in logs.items()]
    kept, total = _fitting(pieces, room), sum(len(piece["region"]) for piece in pieces)
    columns = {key: np.concatenate([piece[key] for piece in kept]) for key in kept[0]} if kept else {}
    for end in ("start", "stop"):
        columns[end] = columns[end] + base
    edges = handed_over(
        took.rows, tree.of, {sm: logs[sm] for sm in (int(piece["unit"][0]) for piece in kept)}, base
    )
    share = len(kept) / max(took.log.multiprocessors, 1)
    factor = 1.0 if took.part is None else took.part.factor
    columns["weight"] = np.full(len(columns["region"]), factor / share)
    units = [Unit(int(n), f"SM {n}", "sm") for n in np.unique(columns["unit"])]
    said = "" if took.part is None else took.part.said()
    notes = (f"{name}: {said}",) if said else ()
    if share < 1:
        notes += (
            f"{name}: intervals of {len(kept)} of {took.log.multiprocessors} multiprocessors were kept; counters are "
            "of all",
        )  # fmt: skip
    estimated = round(total / max(len(pieces), 1) * took.log.multiprocessors)
    left_out = round(estimated * factor) - len(columns["region"]) if share < 1 or factor > 1 else 0
    return Exact(
        columns, tree.regions, units, ns, grid=grid, counters=_counters(program, took, units[0].id), edges=edges,
        kept=len(columns["region"]), sampled_out=max(0, left_out),
        notes=notes, streams=tuple(f"warp {n}" for n in range(int(columns["stream"].max(initial=0)) + 1)),
    )  # fmt: skip


def _fitting(pieces: list[dict[str, np.ndarray]], room: int) -> list[dict[str, np.ndarray]]:
    """Every second multiprocessor, as often as it takes."""
    while len(pieces) > 1 and sum(len(piece["region"]) for piece in pieces) > room:
        pieces = pieces[::2]
    return pieces


def _intervals(tree: _Tree, events: np.ndarray, sm: int) -> dict[str, np.ndarray]:
    """Those of one multiprocessor, warp by warp: the kernel as a whole, loops, iterations, lines."""
    cycle, pc = events["cycle"], events["pc"]
    new = np.ones(len(events), bool)
    new[1:] = (events["program"][1:] != events["program"][:-1]) | (events["warp"][1:] != events["warp"][:-1])
    begin = np.where(new, cycle, np.concatenate(([0], cycle[:-1])))
    iteration, outer = np.full(len(events), -1, np.int64), np.zeros(len(events), np.int64)
    found = [_runs(np.zeros(len(events), np.int64), new, begin, cycle)]  # the kernel
    numbers = [(np.full(len(found[0][0]), -1), np.zeros(len(found[0][0]), np.int64))]
    for n, (loop, body, region, each) in enumerate(tree.loops):
        inside = body[pc]
        entered = inside & (new | ~np.concatenate(([False], inside[:-1])))
        runs = np.cumsum(entered) - 1  # which run of the loop, over all warps
        first = np.concatenate(([0], np.flatnonzero(new)))[np.cumsum(new)]  # of its warp
        run = runs - np.where(first > 0, runs[np.maximum(first - 1, 0)], -1) - 1
        heads = np.cumsum(inside & (pc == loop.head))
        since = heads[np.flatnonzero(entered)] if entered.any() else np.zeros(0, np.int64)
        turn = np.where(inside, heads - (since[np.maximum(runs, 0)] if len(since) else 0), -1)
        turn = np.maximum(turn, np.where(inside, 0, -1))
        for what, split in ((region, entered), (each, entered | (inside & (pc == loop.head)))):
            picked = _runs(np.where(inside, what, -1), split | (new & inside), begin, cycle, inside)
            found.append(picked)
            own = turn[picked[3]] if what == each else np.full(len(picked[0]), -1)
            numbers.append((own, run[picked[3]]))
        mine = tree.inner[pc] == n
        iteration[mine], outer[mine] = turn[mine], run[mine]
    regions = tree.of[pc]
    change = new.copy()
    change[1:] |= (regions[1:] != regions[:-1]) | (iteration[1:] != iteration[:-1])
    found.append(_runs(regions, change, begin, cycle))
    numbers.append((iteration[found[-1][3]], outer[found[-1][3]]))
    at_first = np.concatenate([run[3] for run in found])
    return {
        "region": np.concatenate([run[0] for run in found]),
        "start": np.concatenate([run[1] for run in found]),
        "stop": np.concatenate([run[2] for run in found]),
        "program": events["program"][at_first].astype(np.uint32),
        "stream": events["warp"][at_first].astype(np.uint16),
        "unit": np.full(len(at_first), sm, np.uint32),
        "iteration": np.concatenate([each for each, _ in numbers]).astype(np.int32),
        "outer": np.concatenate([each for _, each in numbers]).astype(np.int64),
    }


def _runs(
    regions: np.ndarray,
    first: np.ndarray,
    begin: np.ndarray,
    cycle: np.ndarray,
    inside: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Instructions one after another as intervals, each from where `first` is true: region, start, stop, and which is
    its first."""
    at_first = np.flatnonzero(first)
    ends = np.concatenate((at_first[1:], [len(cycle)]))[: len(at_first)] - 1
    if inside is not None:  # up to the last one that lies inside
        last = np.maximum.accumulate(np.where(inside, np.arange(len(cycle)), -1))
        ends = last[ends]
    return regions[at_first], begin[at_first], cycle[ends], at_first


def _counters(program: Program, took: Timed, unit: int) -> dict[str, list]:
    """Issued instructions and stall cycles by source line and reason, and what was counted of the whole launch."""
    names = ("issued", *(f"stall {reason}" for reason in tl.REASONS))
    rows = [
        (file, line, name, value)
        for (file, line), row in by_line(program, took.statistics).items()
        for name, value in zip(names, row.tolist())
        if value
    ]
    rows += [("", 0, name, value) for name, value in took.counters.items()]
    if took.part is not None:
        rows.append(("", 0, "multiprocessors", took.part.all_multiprocessors))
    products = [text if of_tensor_cores(text) else "" for text in program.texts]
    rows.append(("", 0, "flops", issued_flops(program.texts, took.lanes)))
    rows.append(("", 0, "tensor_flops", issued_flops(products, took.lanes)))
    return {
        "unit": [unit] * len(rows), "file": [row[0] for row in rows], "line": [row[1] for row in rows],
        "name": [row[2] for row in rows], "value": [float(row[3]) for row in rows],
    }  # fmt: skip
