"""A target that takes records and is not the CPU: two units with clocks of their own, several streams, a shared timer.

Its "kernel" writes words as a lowering would; what comes out of the session must be what it did.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

import tileprobe
from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import (
    BEGIN,
    EPOCH,
    GLOBAL_BEGIN,
    GLOBAL_END,
    UNIT,
    Capabilities,
    Layout,
    Span,
    Stamp,
    StreamItems,
    allocate,
)
from tileprobe.ir.machine import GlobalTimer, Unit
from tileprobe.ir.regions import Region
from tileprobe.ir.sampling import BUFFER, LAUNCH_EPOCH
from tileprobe.targets.base import CommonTarget, FixedClock, Level, Source, Variant, launches

HZ, STEP = 2e9, 100  # ticks of 0.5 ns; the shared timer counts ns and shows every hundredth
OFFSETS = (1_000_000, 77_000)  # ticks by which each unit's clock is ahead of the shared time


class Memory:
    """Words in a dictionary of the host, found by made-up addresses."""

    def __init__(self):
        self.held = {}

    def take(self, blocks, block_words):
        return self._keep(np.zeros((blocks, block_words), np.uint64))

    def put(self, words):
        return self._keep(words)

    def _keep(self, words):
        kept = Kept(4096 * (len(self.held) + 1), words)
        self.held[kept.address] = kept
        return kept


@dataclass
class Kept:
    address: int
    words: np.ndarray
    given_back: bool = False

    def read(self):
        return self.words

    def give_back(self, used=None):
        self.given_back = True


class Two(CommonTarget):
    """Two units."""

    name, about, structure, takes = "two", "a test", "scf", "record"
    levels = (Level("ttir", "", shown=True),)
    capabilities = Capabilities(("warp",), ("global",), ("exact",), (32,), 2)
    doses = ()

    def __init__(self):
        self.clock = FixedClock("own", HZ, 32, GlobalTimer(1e9, STEP))
        self.memory = Memory()

    def units(self, numbers):
        return [Unit(n, f"SM {n}", "sm") for n in numbers]


LAYOUT = allocate(
    [StreamItems([Stamp(0), Stamp(1)], "load"), StreamItems([Stamp(2), Stamp(3)], "mma", instances=2)],
    spans=[
        Span(0, 0, 1),
        Span(1, 2, 3),
        Span(2, 0, 3, "async"),
    ],
    clock_bits=32,
    granularity="warp",
)
REGIONS = (Region(0, "load"), Region(1, "mma"), Region(2, "copy", "async"))


@dataclass
class Kernel:
    target: Two
    layout: Layout = LAYOUT
    name: str = "both"
    machine: str = "two"
    source: Source = field(default_factory=Source)
    key: int = 7

    def compile(self, pipeline):
        assert "granularity" not in pipeline  # a plan says nothing of it: the target's own passes do
        return Variant("k", None, self.layout, REGIONS)

    def launch(self, programs, when_ns):
        """Program p runs on unit p % 2 from `when_ns` + 1000 p on; its parts take 100 and 200 + 10 * instance ns."""
        watch = launches.observer(self, (programs, 1, 1), 0)
        watch.start()
        if watch.parameters:
            self._write(watch.parameters, programs, when_ns)
        watch.stop()

    def _write(self, parameters, programs, when_ns):
        held = self.target.memory.held
        words = held[parameters].words
        blocks, epoch = held[int(words[BUFFER])].words, int(words[LAUNCH_EPOCH])
        for p in range(programs):
            unit, begin = p % 2, when_ns + 1000 * p
            for stream in self.layout.streams:
                for n in range(stream.instances):
                    at = stream.base + n * stream.words
                    first, last = (
                        (begin, begin + 100) if stream.id == 0 else (begin + 50, begin + 250 + 10 * n)
                    )
                    ticks = lambda ns: (int(ns * HZ / 1e9) + OFFSETS[unit]) & 0xFFFFFFFF  # noqa: B023
                    block = blocks[p, at : at + stream.words]
                    block[[EPOCH, UNIT, BEGIN]] = epoch, unit, ticks(first)
                    block[GLOBAL_BEGIN], block[GLOBAL_END] = first // STEP * STEP, last // STEP * STEP
                    for slot, ns in zip(
                        (s for s in self.layout.slots if s.stream == stream.id), (first, last)
                    ):
                        block[slot.base] = ticks(ns) | epoch << 32


def test_clocks_of_two_units_are_aligned_and_streams_kept_apart():
    kernel = Kernel(Two())
    with tileprobe.profile(alternate=False, programs="all") as session:
        kernel.launch(24, 5_000_040)
        kernel.launch(24, 9_000_070)
    trace = session.trace
    assert {unit.name: unit.domain for unit in trace.units} == {"SM 0": "two, unit 0", "SM 1": "two, unit 1"}
    assert all(0 < domain.error_ns <= STEP / 2 for domain in trace.domains)
    error = sum(domain.error_ns for domain in trace.domains)
    frame = trace.to_polars().sort("launch", "program", "stream", "name")
    first = frame["start_ns"].min()
    for row in frame.iter_rows(named=True):
        begin = (5_000_040, 9_000_070)[row["launch"]] + 1000 * row["program"] - 5_000_040
        start, lengths = {
            "load": (begin, [100]),
            "mma": (begin + 50, [200 + 10 * (row["stream"] - 1)]),
            "copy": (begin, [250, 260]),  # until the one warp or the other has it
        }[row["name"]]
        assert row["stop_ns"] - row["start_ns"] in [pytest.approx(length) for length in lengths]
        assert row["start_ns"] - first == pytest.approx(start, abs=error)
    assert sorted(frame["stream"].unique()) == [0, 1, 2]
    assert len(trace.edges) == 2 * 24 * 2  # from each copy to both that waited for it
    waited = (trace.edges["to_ns"] - trace.edges["from_ns"]).round(6)
    assert waited.value_counts().sort(waited.name).rows() == [(250.0, 48), (260.0, 48)]
    assert all(kept.given_back for kept in kernel.target.memory.held.values() if kept.words.ndim == 2)


def test_what_a_target_cannot_do_is_refused_and_said(capsys):
    target = Two()
    target.capabilities = Capabilities(("program",), ("global",), ("exact",), (64,), 1)
    with tileprobe.profile() as session:
        Kernel(target).launch(2, 0)
    assert not session.trace.launches
    session.report()
    said = capsys.readouterr().out
    assert "both could not be probed" in said
    assert "two" in said
    with pytest.raises(UnsupportedError):
        target.capabilities.check(LAYOUT, "two")


def test_units_of_two_targets_have_numbers_of_their_own():
    """A session that sees two machines keeps their units, regions and clocks apart."""
    one, other = Kernel(Two()), Kernel(Two(), name="second", machine="other", key=8)
    with tileprobe.profile(alternate=False, programs="all") as session:
        one.launch(2, 1000)
        other.launch(2, 1000)
    trace = session.trace
    assert len(trace.kernels) == 2
    assert len({unit.id for unit in trace.units}) == len(trace.units) == 4
    assert {unit.domain for unit in trace.units} == {
        f"{m}, unit {n}" for m in ("two", "other") for n in (0, 1)
    }
    regions = {r.id: r.kernel for r in trace.regions}
    launch = {launch.id: launch.kernel for launch in trace.launches}
    for row in trace.intervals.iter_rows(named=True):
        assert regions[row["region"]] == launch[row["launch"]]


def test_kernels_of_two_machines_may_have_the_same_key():
    one, other = Kernel(Two()), Kernel(Two(), name="second", machine="other")
    with tileprobe.profile(alternate=False, programs="all") as session:
        one.launch(2, 1000)
        other.launch(2, 1000)
    assert [(k.name, k.target) for k in session.trace.kernels] == [("both", "two"), ("second", "other")]


class Broken(Exception):
    pass


def _raises(*_):
    raise Broken("the device is gone")


def test_a_launch_goes_on_without_its_memory_or_its_clock():
    """The user's program needs neither; what is wrong is said."""
    full, dead = Kernel(Two(), name="full"), Kernel(Two(), name="dead", key=8)
    full.target.memory.take = _raises
    dead.target.clock.start = _raises
    with tileprobe.profile(alternate=False, programs="all") as session:
        full.launch(2, 1000)
        dead.launch(2, 1000)
        Kernel(Two(), key=9).launch(2, 1000)
    assert [kernel.name for kernel in session.trace.kernels if session.trace.kernel_launches(kernel.id)]
    for name in ("full", "dead"):
        assert session.problems[name] == f"{name} could not be probed: the device is gone"
        assert not [
            i for i in session.trace.launches if session.trace.kernels[i.kernel].name == name and i.probed
        ]


def test_a_launch_that_raises_gives_its_buffer_back():
    kernel = Kernel(Two())
    with tileprobe.profile(alternate=False, programs="all") as session:
        watch = launches.observer(kernel, (2, 1, 1), 0)
        watch.start()
        watch.abort()
        kernel.launch(2, 1000)
    assert len(session.trace.launches) == 1
    assert [kept.given_back for kept in kernel.target.memory.held.values() if kept.words.ndim == 2] == [
        True,
        True,
    ]
