"""Launches made by hand: a kernel with a loop whose records come after gaps that a test says, as a session keeps them.

Regions: 0 the kernel, 1 a load, 2 the loop, 3 its iterations, 4 a stage that is all of an iteration but its first
and last tick, 5 a store. Nothing is run, so nothing depends on the machine.
"""

from types import SimpleNamespace

import numpy as np

from tileprobe.ir.layout import EPOCH, UNIT, Body, Span, Stamp, allocate
from tileprobe.ir.machine import Unit
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import Sampling
from tileprobe.session.collect import Collected, build_trace
from tileprobe.session.recorded import Recorded
from tileprobe.targets.base import Source, Variant
from tileprobe.tools.regions import region_tree

HZ = 2e9
REGIONS = (
    Region(0, "k", "kernel", None, 0, "k.py", 1, 9, 0),
    Region(1, "load @ 2", "load", 0, 0, "k.py", 2, 2, 1),
    Region(2, "loop @ 3", "loop", 0, 0, "k.py", 3, 5, 1),
    Region(3, "iteration", "iteration", 2, 0, "k.py", 3, 5, 2),
    Region(4, "exp @ 4", "exp", 3, 0, "k.py", 4, 4, 3),
    Region(5, "store @ 6", "store", 0, 0, "k.py", 6, 6, 1),
)
# Slots in execution order: kernel, load, load, loop, iteration, stage, stage, iteration, loop, store, store, kernel
SPANS = [Span(0, 0, 11), Span(1, 1, 2), Span(2, 3, 8), Span(3, 4, 7), Span(4, 5, 6), Span(5, 9, 10)]
GAPS = {
    1: 10,
    2: 1000,
    3: 10,
    4: 4,
    5: 1,
    6: 4000,
    7: 1,
    8: 4,
    9: 10,
    10: 600,
    11: 10,
}  # ticks before each slot
EPOCHS = iter(range(1, 1 << 30))


def layout(room, copies=1):
    inner = tuple(Stamp(slot) for slot in (4, 5, 6, 7))
    around = [Stamp(slot) for slot in range(4)]
    return allocate(
        [*around, Body(0, room, inner), *(Stamp(slot) for slot in (8, 9, 10, 11))], spans=SPANS, copies=copies
    )


class Kernel:
    """A compiled kernel on a machine whose clock has a known rate."""

    def __init__(self, room=256, hz=HZ, name="k", key="code"):
        self.name, self.key, self.machine, self.signature = name, key, "cpu", "x: *fp32, n: i32"
        self.source = Source("k.py", 1, "def k():\n    pass\n")
        clock = SimpleNamespace(name="tsc", bits=64, timer=None, hz=lambda: hz, floor_ticks=lambda: 20.0)
        units = lambda numbers: [Unit(n, f"core {n}") for n in numbers]
        self.target = SimpleNamespace(
            takes="record", clock=clock, units=units, doses=(1, 3), passes_unkept=False, hides_records=False
        )
        self.layout = layout(room)
        self.variant = Variant("v", None, self.layout, REGIONS)


def launch(
    kernel,
    trips=8,
    programs=4,
    *,
    gaps=GAPS,
    more=None,
    noise=None,
    cost=0.0,
    dose=1,
    waited=None,
    work=None,
    sampling=None,
    start=0,
    duration=None,
):
    """One launch. `more(program, slot, iteration)` ticks come on top of `gaps`; each record takes `cost`, `dose` times.
    Programs run on two cores, one after the other. `trips` may be a function of the program."""
    trips_of = trips if callable(trips) else lambda program: trips
    sampling, room = sampling or Sampling(), kernel.layout.loops[0].capacity
    chosen = sampling.recorded(programs, programs).tolist()
    words = np.zeros((max(len(chosen), 1), kernel.layout.block_words), np.uint64)
    epoch, free = next(EPOCHS), [1_000_000.0, 1_000_000.0]
    for program in range(programs):
        clock, trips = free[program % 2], trips_of(program)
        block = words[chosen.index(program)] if program in chosen else None
        if block is not None:
            block[EPOCH], block[UNIT] = epoch, program % 2
            block[kernel.layout.loops[0].trip_base] = (epoch << 32) | trips
        for slot, iteration in sequence(trips):
            clock += gaps.get(slot, 0)
            clock += more(program, slot, iteration) if more else 0
            clock += abs(noise.normal(0, 2)) if noise is not None else 0
            index = sampling.loop(0).index(iteration, trips) if 4 <= slot <= 7 else 0
            if block is None or not 0 <= index < room:
                continue
            clock += cost * dose
            place = kernel.layout.slots[slot]
            block[place.place([index] if place.loops else [])] = round(clock)
        free[program % 2] = clock + 50
    lasted = (max(free) - 1_000_000) * 1e9 / kernel.target.clock.hz()
    return Recorded(
        (programs,),
        start_ns=start,
        duration_ns=round(lasted if duration is None else duration),
        layout=kernel.layout,
        sampling=sampling,
        words=words,
        used=np.arange(kernel.layout.block_words),
        epoch=epoch,
        dose=dose,
        work=work,
        waited_ns=waited,
    )


def sequence(trips):
    """The slots in execution order, each with its iteration."""
    inner = [(slot, i) for i in range(trips) for slot in (4, 5, 6, 7)]
    return [*((slot, -1) for slot in range(4)), *inner, *((slot, -1) for slot in (8, 9, 10, 11))]


def plain(programs=4, duration=0, work=None, waited=None):
    """A launch without probes."""
    return Recorded((programs,), duration_ns=round(duration), work=work, waited_ns=waited)


def trace_of(kernel, launches, dosed=(), ran=None):
    """As a session makes it. `ran` counts launches of each work, recorded or not."""
    collected = Collected()
    for work, count in (ran or {}).items():
        for _ in range(count):
            collected.saw(kernel, work, (4,), f"work {work}")
    for run in launches:
        collected.add(kernel, kernel.variant, run, False)
    for run in dosed:
        collected.add(kernel, kernel.variant, run, True)
    return build_trace(collected, {})


def tree(trace):
    """The region tree's rows by name."""
    return {row["name"]: row for row in region_tree(trace, trace.kernels[0]).iter_rows(named=True)}
