"""A script's launches, timed, and the machine code of its kernels with what each instruction took.

In come launches that ended; out go plain dictionaries, the JSON of `tileprobe inspect --sass`: one for each kernel that
was compiled, all its launches together.
"""

from __future__ import annotations

import os
import tokenize
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import Any

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.launched import Launched, observing
from tileprobe.targets.simgpu.listing import BYTES, Control
from tileprobe.targets.simgpu.timing.chip import by_line

_LARGEST = 8 << 20  # bytes of a source that is read
SCHEDULERS = 4  # of a multiprocessor: each issues one instruction a cycle


class TimedLaunches:
    """A context manager: launches in it are run with time, and noted."""

    def __init__(self, chosen: Any) -> None:
        self._chosen, self._launches, self._stack = chosen, [], ExitStack()

    def __enter__(self) -> TimedLaunches:
        self._stack.enter_context(self._chosen)
        self._stack.enter_context(observing(self._note))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def _note(self, launch: Launched) -> None:
        if launch.took is not None:
            self._launches.append(launch)

    def names(self) -> list[str]:
        return sorted({launch.kernel for launch in self._launches})

    def kernels(self, names: Any) -> list[dict[str, Any]]:
        """Those whose name `names` takes, in the order of their first launch."""
        groups: dict[tuple[str, int], list[Launched]] = defaultdict(list)
        for launch in self._launches:
            if names(launch.kernel):
                groups[launch.kernel, id(launch.program)].append(launch)
        return [_kernel(launches) for launches in groups.values()]


def _kernel(launches: list[Launched]) -> dict[str, Any]:
    first = launches[0]
    took = [launch.took for launch in launches if launch.took is not None]
    statistics = np.sum([each.statistics for each in took], 0)
    counters = sum((Counter(each.counters) for each in took), Counter(dict.fromkeys(took[0].counters, 0)))
    cycles = [each.cycles for each in took]
    issued = int(statistics[:, 0].sum())
    slots = SCHEDULERS * first.machine.multiprocessors * sum(cycles)
    held = first.occupancy
    return {
        "name": first.kernel,
        "target": f"sim:{first.machine_name}",
        "constants": dict(first.constants),
        "launches": len(launches),
        "grid": list(first.grid),
        "warps": first.warps,
        "cycles": cycles,
        "clock_mhz": first.machine.clock_mhz,
        "issued": issued,
        "issue_slots": slots,
        "registers": first.program.cubin.registers,
        "spill_bytes": first.spill_bytes,
        "shared_bytes": first.shared_bytes,
        "occupancy_warps": held.warps,
        "occupancy_most": first.machine.warps_multiprocessor,
        "occupancy_limiter": held.limiter,
        "counters": {name: counters[name] for name in took[0].counters},
        "stalls": _stalls(statistics.sum(0)),
        "instructions": _instructions(first, statistics),
        "lines": _lines(first, statistics),
    }


def _stalls(row: np.ndarray) -> dict[str, int]:
    """Cycles by reason, the largest first, without those that never were."""
    found = {reason: int(lost) for reason, lost in zip(tl.REASONS, row[1:]) if lost}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _instructions(launch: Launched, statistics: np.ndarray) -> list[dict[str, Any]]:
    program, total, issued = launch.program, statistics.sum(), statistics[:, 0].sum()
    return [
        {
            "address": n * BYTES,
            "text": program.texts[n],
            "issued": int(row[0]),
            "issue_share": float(row[0] / issued) if issued else 0.0,
            "stalls": _stalls(row),
            "time_share": float(row.sum() / total) if total else 0.0,
            "control": _control(int(program.uops[n, at.CONTROL])),
            "file": program.file_names[program.files[n]],
            "line": int(program.lines[n]),
        }
        for n, row in enumerate(statistics[: _end(program.texts)])
    ]


def _end(texts: list[str]) -> int:
    """Behind the last instruction that is no padding: a branch to itself, and instructions that do nothing."""
    end = len(texts)
    while end and (texts[end - 1].startswith("NOP") or texts[end - 1].startswith("BRA `(.L_x_")):
        end -= 1
    return end or len(texts)


def _control(bits: int) -> dict[str, Any]:
    """As words. The scheduler prefers another warp where the bit is clear (Jia et al., arXiv:1804.06826, 2.1)."""
    found = Control.of((bits & 0x1FFFFF) << 105)
    return {
        "stall": found.stall,
        "yield": not found.yields,
        "write_barrier": None if found.write == tl.NO_BAR else found.write,
        "read_barrier": None if found.read == tl.NO_BAR else found.read,
        "wait_barriers": [n for n in range(6) if found.wait >> n & 1],
        "reuse": found.reuse,
    }


def _lines(launch: Launched, statistics: np.ndarray) -> list[dict[str, Any]]:
    """Source lines, those first that took the most."""
    program, total = launch.program, statistics.sum()
    source = _Sources(launch.file)
    found = [
        {
            "file": file,
            "line": line,
            "text": source.line(file, line),
            "issued": int(row[0]),
            "stalls": _stalls(row),
            "time_share": float(row.sum() / total) if total else 0.0,
        }
        for (file, line), row in by_line(program, statistics).items()
        if row.any()
    ]
    return sorted(found, key=lambda each: (-each["time_share"], each["file"], each["line"]))


class _Sources:
    """Lines of files. Triton keeps compiled kernels by their text: the file they name may be one that is gone, and the
    kernel's own, of the same name, is read instead."""

    def __init__(self, own: str) -> None:
        self._own, self._kept = own, {}

    def line(self, file: str, number: int) -> str:
        if file not in self._kept:
            moved = not os.path.exists(file) and os.path.basename(file) == os.path.basename(self._own)
            self._kept[file] = _read(self._own if moved else file)
        lines = self._kept[file]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _read(file: str) -> list[str]:
    try:
        with tokenize.open(file) as text:  # in the encoding that the source names
            return text.read().splitlines() if os.path.getsize(file) < _LARGEST else []
    except (OSError, ValueError, SyntaxError):
        return []
