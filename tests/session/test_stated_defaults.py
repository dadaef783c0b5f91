"""What the documents say happens where nobody says otherwise is what the code does."""

import inspect
import io
import sys

import pytest
from session_parts import kernel_of, recorded

from tileprobe.errors import TileProbeError
from tileprobe.ir.machine import Clock
from tileprobe.passes.assign_slots import AssignSlotsPass
from tileprobe.passes.probe_to_record import ProbeToRecordPass
from tileprobe.passes.sample import SamplePass
from tileprobe.passes.select import SelectPass
from tileprobe.session import arguments
from tileprobe.session.choices import check_numbers
from tileprobe.session.collect import Collected
from tileprobe.session.progress import Progress
from tileprobe.session.session import Session
from tileprobe.targets.base import Variant
from tileprobe.tools.plan import Plan
from tileprobe.trace import Kernel, Launch, Region, Trace, Work
from tileprobe.trace.domains import align

ROOM = 256  # docs/profiling.md, docs/sampling.md


def test_loops_have_room_for_256_iterations():
    assert SamplePass().capacity == ROOM
    assert inspect.signature(Plan.pipeline).parameters["capacity"].default == ROOM
    assert inspect.signature(Session).parameters["capacity"].default == ROOM


def test_a_block_has_room_for_as_many_words_as_a_slot_can_name():
    assert AssignSlotsPass().max_words == 1 << 14


def test_what_passes_do_where_nobody_says_otherwise():
    assert AssignSlotsPass().shared_words == 2048
    assert ProbeToRecordPass().copies == 1  # each record is written once
    assert SelectPass().min_cost == 0.0  # every stage


def test_a_million_intervals_of_a_simulated_launch_are_kept():
    assert inspect.signature(Session).parameters["intervals"].default == 1_000_000


def test_intervals_of_which_little_is_said():
    rows = {"region": [0], "start": [0], "stop": [5]}
    kernel = Kernel(0, "k", "cpu", Clock(1e9))
    trace = Trace.build(rows, kernels=[kernel], launches=[Launch(0)], regions=[Region(0, "k", "kernel")])
    said = trace.intervals.select("launch", "program", "stream", "unit", "iteration", "outer").row(0)
    assert said == (0, 0, 0, 0, -1, 0)
    assert (kernel.first_line, Work(3).kernel) == (0, 0)


def test_a_shared_clock_is_read_together_with_a_streams_own():
    assert inspect.signature(align).parameters["slack_ns"].default == 0.0


def test_a_clock_has_64_bits():
    assert Clock(1e9).bits == 64


def test_sixteen_values_of_an_argument_are_told_apart():
    telling = arguments.Telling()
    found = [telling.key((4, 1, 1), [value]) for value in range(1025, 1025 + 20)]
    assert len(set(found)) == 16 + 1  # the others are 1024 to 2047


def test_an_overhead_of_a_million_percent_is_the_most():
    check_numbers(max_overhead=1e6)
    with pytest.raises(TileProbeError, match="max_overhead"):
        check_numbers(max_overhead=1e6 + 0.5)


def test_a_launch_of_which_nothing_is_said():
    assert (Launch(0).kernel, Launch(0).grid) == (0, (1,))


def test_eight_launches_of_a_dose_are_kept():
    """More say no more about the cost of a record."""
    kernel, collected = kernel_of(), Collected()
    variant = Variant("v", None)
    for _ in range(12):
        collected.add(kernel, variant, recorded(dose=3), True)  # type: ignore[arg-type]
    (seen,) = collected.kernels.values()
    assert len(seen.dosed) == 8


def test_progress_is_seen_at_once_and_goes_away(monkeypatch):
    """What is written over is flushed, the blank at the end as well."""
    flushed = []

    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def flush(self):
            flushed.append(self.getvalue())

    monkeypatch.setattr(sys, "stderr", Terminal())
    progress = Progress(True)
    progress.began = progress.last = -100.0
    progress.launched("k")
    assert flushed[-1].endswith("1 launches, now k")
    progress.end()
    assert flushed[-1].endswith("\r\033[K")
