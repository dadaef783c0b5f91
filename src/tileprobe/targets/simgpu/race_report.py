"""Races in sentences: in come the tables that the engine left, out goes one error with both lines of each pair."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tileprobe.targets.simgpu.arguments import element
from tileprobe.targets.simgpu.engine import findings as f
from tileprobe.targets.simgpu.errors import KernelFault
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.watching import Watch

SHOWN = 8  # pairs of lines
_OPCODE = re.compile(r"(?:@!?U?P\w+ )?([A-Z]\w*)")


class RaceFault(KernelFault):
    """Accesses to the same memory that nothing orders. The launch has finished; what it left may be wrong."""


# What the first and the second of a pair did, and what is missing between them
_WORDS = {
    f.WROTE_WRITTEN: ("wrote", "writes another value", "no barrier stands between them"),
    f.READ_WRITTEN: ("wrote", "reads", "no barrier stands between them"),
    f.WROTE_READ: ("read", "overwrites it", "no barrier stands between them"),
    f.NO_FENCE: (
        "wrote", "reads as an asynchronous engine", "no fence for asynchronous engines stands between them",
    ),
    f.WROTE_BUSY: ("reads asynchronously", "overwrites it", "nobody has waited for the reading to end"),
    f.WROTE_UNDER_WAY: ("copies to it asynchronously", "writes", "nobody has waited for the copy"),
    f.COPIED_TWICE: (
        "copies to it asynchronously", "copies to it, too", "nobody has waited for the first copy",
    ),
    f.GLOBAL_WROTE_WRITTEN: ("wrote", "writes another value", "nothing orders them"),
    f.GLOBAL_READ_WRITTEN: ("wrote", "reads", "nothing orders them"),
    f.GLOBAL_WROTE_READ: ("read", "overwrites it", "nothing orders them"),
    f.LEFT: ("uses it", "ends the program that it belongs to", "no barrier of the cluster stands between them"),
}  # fmt: skip
_UNWRITTEN = {f.UNWRITTEN: "shared memory", f.GLOBAL_UNWRITTEN: "scratch memory"}
_LOAD_NOT_WAITED = "nobody has waited for the copy's barrier"


@dataclass
class _Pair:
    entry: dict[str, int]
    count: int
    codes: set[int]  # places in the code


def _fields(row: np.ndarray) -> dict[str, int]:
    names = ("KIND", "FIRST_PC", "SECOND_PC", "FIRST_AGENT", "SECOND_WARP", "FIRST_PROGRAM", "SECOND_PROGRAM",
             "PLACE", "SIZE", "LANE", "COUNT")  # fmt: skip
    return {name: int(row[getattr(f, name) // 8]) for name in names}


def _pairs(watch: Watch) -> tuple[list[_Pair], int]:
    """One for each pair of lines, the most frequent first; and how many had no room."""
    found: dict[tuple[int, str, str], _Pair] = {}
    lost = 0
    for block in watch.blocks:
        rows, more = block.found()
        lost += more
        for row in rows:
            entry = _fields(row) | {"RANK": block.rank}
            key = (
                entry["KIND"],
                watch.program.place(entry["FIRST_PC"]),
                watch.program.place(entry["SECOND_PC"]),
            )
            if key in found:
                found[key].count += entry["COUNT"]
            else:
                found[key] = _Pair(entry, entry["COUNT"], set())
            found[key].codes |= {entry["FIRST_PC"], entry["SECOND_PC"]}
    answers = _answers(watch.program)
    raced = {pc for pair in found.values() if pair.entry["KIND"] not in _UNWRITTEN for pc in pair.codes}
    kept = [  # what is written too late is a race, and told as one
        pair
        for pair in found.values()
        if pair.entry["KIND"] not in _UNWRITTEN or pair.entry["SECOND_PC"] not in raced | answers
    ]
    return sorted(kept, key=lambda pair: (-pair.count, pair.entry["SECOND_PC"])), lost


def _answers(program: Program) -> set[int]:
    """Loads of shared memory in lines with atomics on global memory. Triton hands an atomic's answer to all lanes by
    way of shared memory, and reads it also where the mask said no and nobody has written one: extremes of floats are
    two atomics, of which one is not done. What is read is not used, and its user could do nothing about it."""
    opcodes = [found[1] if (found := _OPCODE.match(text)) else "" for text in program.texts]
    lines = {program.place(n) for n, name in enumerate(opcodes) if name in ("ATOMG", "ATOM", "RED", "REDG")}
    return {n for n, name in enumerate(opcodes) if name == "LDS" and program.place(n) in lines}


def _where(program: Program, pc: int) -> str:
    text = program.texts[pc] if 0 <= pc < len(program.texts) else "?"
    return f"{program.place(pc)} (`{text}`)"


def _agent(watch: Watch, agent: int) -> str:
    kind, warp = divmod(agent, watch.warps)
    if agent >= 3 * watch.warps:
        return "a bulk load"
    return f"{('', 'a bulk store of ', 'a product of ')[kind]}{_warp(watch, warp)}"


def _warp(watch: Watch, number: int) -> str:
    """A warp; in clusters also which of the programs it belongs to, by its rank."""
    rank, own = divmod(number, watch.each)
    return f"warp {own}" if watch.cluster == 1 else f"program {rank} of the cluster, warp {own}"


def _memory(watch: Watch, pair: _Pair, program: str) -> str:
    """Whose shared memory it is."""
    rank = pair.entry["RANK"]
    return f"program {program}" + (f", number {rank} of its cluster" if watch.cluster > 1 else "")


def _unwritten(watch: Watch, pair: _Pair, program_at: Callable[[int], str]) -> str:
    entry, times = pair.entry, f"; {pair.count:,} times" if pair.count > 1 else ""
    return (
        f"{_where(watch.program, entry['SECOND_PC'])}, program {program_at(entry['SECOND_PROGRAM'])}, "
        f"{_warp(watch, entry['SECOND_WARP'])}, lane {entry['LANE']}: reads {entry['SIZE']} bytes of "
        f"{_UNWRITTEN[entry['KIND']]} at "
        f"{entry['PLACE']:#x} that nobody has written{times}"
    )


def _one(watch: Watch, pair: _Pair, program_at: Callable[[int], str]) -> str:
    entry, program = pair.entry, watch.program
    if entry["KIND"] in _UNWRITTEN:
        return _unwritten(watch, pair, program_at)
    did, does, missing = _WORDS[entry["KIND"]]
    times = f"; {pair.count:,} times" if pair.count > 1 else ""
    left = entry["KIND"] == f.LEFT
    who = _warp(watch, entry["SECOND_WARP"]) + ("" if left else f", lane {entry['LANE']}")
    second = f"{who} {does}, {_where(program, entry['SECOND_PC'])}"
    size = "any of it" if left else f"{entry['SIZE']} bytes at {entry['PLACE']:#x}"
    if left or entry["KIND"] < f.GLOBAL_WROTE_WRITTEN:
        head = f"shared memory, {size}, {_memory(watch, pair, program_at(entry['SECOND_PROGRAM']))}"
        first = _agent(watch, entry["FIRST_AGENT"])
        if entry["FIRST_AGENT"] >= 3 * watch.warps:
            missing = _LOAD_NOT_WAITED
    else:
        called = element(watch.names, entry["PLACE"])
        head, first = (
            f"global memory, {size}{f' ({called})' if called else ''}",
            _warp(watch, entry["FIRST_AGENT"]),
        )
        if entry["FIRST_PROGRAM"] != entry["SECOND_PROGRAM"]:
            first = f"program {program_at(entry['FIRST_PROGRAM'])}, {first}"
            second = f"program {program_at(entry['SECOND_PROGRAM'])}, {second}"
        else:
            head += f", program {program_at(entry['SECOND_PROGRAM'])}"
            missing = "no barrier stands between them"
    return f"{head}{times}\n    {first} {did}, {_where(program, entry['FIRST_PC'])}\n    {second}: {missing}"


_told: set[str] = set()


def tell(watch: Watch, said: str) -> None:
    """Where the checks are wanted in full, and for memory that nobody has written, an error; else a remark, once."""
    pairs, _ = _pairs(watch)
    if watch.strict or any(pair.entry["KIND"] in _UNWRITTEN for pair in pairs):
        raise RaceFault(said)
    lines = {f"{pair.entry['KIND']} {_lines(watch, pair)}" for pair in pairs}
    if not lines <= _told:
        _told.update(lines)
        print(f'tileprobe: {said}\n  --check (check="all") makes this an error', file=sys.stderr, flush=True)


def _lines(watch: Watch, pair: _Pair) -> str:
    return " ".join(watch.program.place(pair.entry[name]) for name in ("FIRST_PC", "SECOND_PC"))


def faults(watch: Watch, grid: tuple[int, int, int]) -> list[str]:
    """Each pair in sentences."""

    def program_at(number: int) -> str:
        x, y, z = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
        return f"({x}, {y}, {z})"

    return [_one(watch, pair, program_at) for pair in _pairs(watch)[0]]


def text_of(watch: Watch, said: list[str]) -> str:
    """What `faults` says of all pairs as one message; nothing where there are none."""
    pairs, lost = _pairs(watch)
    if not pairs:
        return ""
    lines = [f"  {one}" for one in said[:SHOWN]]
    rest = pairs[SHOWN:]
    if rest or lost:
        seen = sum(pair.count for pair in rest) + lost
        lines.append(f"  and {len(rest)} more, {seen:,} accesses in all")
    count = f"{len(pairs)} fault{'s' * (len(pairs) > 1)}"
    head = f"kernel {watch.program.name}: the checks of memory found {count}"
    return "\n".join([head, *lines])
