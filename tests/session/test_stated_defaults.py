"""What the documents say happens where nobody says otherwise is what the code does."""

import inspect

from tileprobe.ir.machine import Clock
from tileprobe.passes.assign_slots import AssignSlotsPass
from tileprobe.passes.sample import SamplePass
from tileprobe.session.session import Session
from tileprobe.tools.plan import Plan

ROOM = 256  # docs/profiling.md, docs/sampling.md


def test_loops_have_room_for_256_iterations():
    assert SamplePass().capacity == ROOM
    assert inspect.signature(Plan.pipeline).parameters["capacity"].default == ROOM
    assert inspect.signature(Session).parameters["capacity"].default == ROOM


def test_a_block_has_room_for_as_many_words_as_a_slot_can_name():
    assert AssignSlotsPass().max_words == 1 << 14


def test_a_clock_has_64_bits():
    assert Clock(1e9).bits == 64
