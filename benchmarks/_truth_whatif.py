"""Cases of `truth.py` for `whatif` on a simulated A100: a load that everything waits for, work beside a load, and the
loads of a loop that nothing hides, which are on the critical path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import triton
import triton.language as tl

import tileprobe
from benchmarks._truth import Case, Pair, named
from benchmarks._truth_critical import chase
from benchmarks._truth_parallelism import CYCLES, LINKS, TURNS, chained
from tileprobe.session.relaunching import relaunching
from tileprobe.session.scaling import Simulated, simulate
from tileprobe.targets.catalog import find
from tileprobe.targets.simgpu.machine import machine
from tileprobe.tools import load_tool

MACHINE = "sim:a100"
STEPS, WIDE, SCALE = 200, 32, 1.25


@triton.jit
def beside(x, out):
    i = tl.arange(0, 32)
    far = tl.load(x + i)  # from DRAM, and awaited behind the sum
    total = i * 3
    total = total * total + 7
    total = (total ^ i) * 5
    tl.store(out + i, total + far)


@triton.jit
def exposed(x, out, steps, WIDE: tl.constexpr):
    i = tl.arange(0, WIDE)
    total = tl.zeros([WIDE], tl.float32)
    at = i * 0
    for _ in range(steps):
        value = tl.load(x + at)  # the next address is made of it
        at = value.to(tl.int32) + i
        total += value
    tl.store(out + i, total)


def _asked(launch: Callable[[], None], scale: float = SCALE) -> Simulated:
    """What `tileprobe whatif --scale 1.25` finds: by so little that nothing else is waited for in place of a load."""
    found: list[Simulated] = []
    with tileprobe.use(MACHINE, timed=True, check=False):
        target = find(MACHINE)[0]
        with relaunching(lambda one: found.append(simulate(one, target, "", scale, lambda _: None))):
            launch()
    return found[0]


def _line(kernel: triton.JITFunction, words: str) -> int:
    """Of a kernel's source, in its file."""
    lines = kernel.raw_src
    return kernel.starting_line_number + next(n for n, text in enumerate(lines) if words in text)


def _slopes(found: Simulated) -> dict[int, float]:
    return {int(row.line.rpartition(":")[2]): row.slope for row in found.lines}


def _chain() -> list[Pair]:
    """Each load needs the one before: a delay of it is a delay of the launch, and its latency is all that counts."""
    counts, won = (100, 300), {}
    for count in counts:

        def launch(count: int = count) -> None:
            x, out = (tileprobe.array(np.zeros(64, np.int32)) for _ in range(2))
            chase[(1,)](x, out, count, num_warps=1)

        found = _asked(launch)
        faster = {row.what: row for row in found.scaled}
        won[count] = (found.took_ns - faster["L1 latency"].ns) * machine("a100").clock_mhz / 1e3
    whole = machine("a100").timing.latency_l1
    each = (won[counts[1]] - won[counts[0]]) / (counts[1] - counts[0])  # the first are not in L1
    return [
        Pair("slope of the load", 1.0, _slopes(found)[_line(chase, "tl.load")], ""),
        Pair("won of each where L1 is faster", whole - round(whole / SCALE), each, "cycles"),
        Pair("won by tensor cores", 0.0, faster["tensor cores"].gain, ""),
    ]


def _faster() -> list[Pair]:
    """A line that is a chain of multiply-adds, each of which waits for the one before, and that takes half as long."""

    def launch() -> None:
        x, out = (tileprobe.array(np.ones(32, np.float32)) for _ in range(2))
        chained[(1,)](x, out, TURNS, LINKS=LINKS, BLOCK=32, num_warps=1)

    pairs: list[Pair] = []
    for times in (2.0, 4.0):
        found = _asked(launch, times)
        row = next(r for r in found.lines if r.line.endswith(f":{_line(chained, 'y * 0.999')}"))
        won = row.faster * found.took_ns * machine("a100").clock_mhz / 1e3
        whole = CYCLES * LINKS * TURNS
        pairs.append(
            Pair(f"won where the line is {times:g} times faster", whole - whole / times, won, "cycles")
        )
    return pairs


def _hidden() -> list[Pair]:
    """Arithmetic beside a load from DRAM: delays of it change nothing."""

    def launch() -> None:
        x, out = (tileprobe.array(np.zeros(32, np.int32)) for _ in range(2))
        beside[(1,)](x, out, num_warps=1)

    slopes = _slopes(_asked(launch))
    first, last = _line(beside, "total = i * 3"), _line(beside, "total ^ i")
    hidden = [slope for line, slope in slopes.items() if first <= line <= last]
    return [
        named("the work is there", bool(hidden)),
        Pair("slope of work beside a load", 0.0, max(map(abs, hidden), default=float("nan")), ""),
    ]


def _loop() -> list[Pair]:
    """Loads of a loop that nothing hides lead the critical path, each for as long as L1 takes; delays of them show."""

    def launch(steps: int = STEPS) -> None:
        x, out = (tileprobe.array(np.zeros(2 * WIDE, np.float32)) for _ in range(2))
        exposed[(1,)](x, out, steps, WIDE, num_warps=1)

    line, ns = _line(exposed, "tl.load"), {}
    for steps in (STEPS, 2 * STEPS):
        with tileprobe.use(MACHINE, timed=True, check=False), tileprobe.profile() as session:
            launch(steps)
        result = load_tool("critical-path").read(session.trace)
        top = next(t.frame for t in result.tables if "on the critical path" in t.title).row(0, named=True)
        right = top["name"].endswith(f"@ {line}")
        ns[steps] = top["ns"] * top["waited"]
    timing, hz = machine("a100").timing, machine("a100").clock_mhz / 1e3
    return [
        named("the load leads the path", right),
        Pair("a load on the path", timing.latency_l1, (ns[2 * STEPS] - ns[STEPS]) / STEPS * hz, "cycles"),
        Pair("slope of the load", 1.0, _slopes(_asked(launch))[line], ""),
    ]


CASES = (
    Case("a chain of loads is delayed", "whatif", MACHINE, _chain),
    Case("a chain of multiply-adds is faster", "whatif", MACHINE, _faster),
    Case("work beside a load is delayed", "whatif", MACHINE, _hidden),
    Case("an exposed load in a loop", "critical-path", MACHINE, _loop),
)
