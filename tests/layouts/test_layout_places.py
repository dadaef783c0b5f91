"""A layout whose records do not lie in the block, or lie on one another, is refused when it is made."""

import pytest

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout, Loop, Slot, Span, Stamp, Stream, allocate

LOOP = Loop(0, 4, trip_base=8, stride=2)
BOTH = Slot(0, (0,), 9, (2,)), Slot(1, (0,), 10, (2,))


def test_a_whole_layout_is_taken():
    Layout(24, loops=(LOOP,), slots=BOTH, spans=(Span(0, 0, 1),))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"slots": (Slot(0, base=4000),)}, "no room"),
        ({"slots": (Slot(0),)}, "no room"),
        ({"slots": (Slot(0, base=23, payload="i64"),)}, "no room"),
        ({"slots": (Slot(0, base=3),)}, "something else lies"),
        ({"slots": (Slot(0, base=9), Slot(1, base=9))}, "something else lies"),
        ({"slots": (Slot(0, base=9, payload="f64"), Slot(1, base=10))}, "something else lies"),
        ({"slots": (Slot(0, base=9, payload="i8"),)}, "i64 or f64"),
        ({"slots": (Slot(0, cursor=True),)}, "needs a cursor_capacity"),
        ({"slots": (Slot(0, base=9),), "spans": (Span(0, 0, 0, "moment"),)}, "one of the kinds"),
        ({"slots": (Slot(0, base=9),), "spans": (Span(-1, 0, 0),)}, "has a region"),
        ({"slots": (Slot(0, base=9),), "copies": 0}, "at least once"),
        ({"slots": (Slot(0, base=9),), "streams": (Stream(0),)}, "header"),
        ({"loops": (Loop(0, 400, trip_base=8, stride=2),), "slots": BOTH}, "no room"),
        ({"loops": (Loop(0, 0, trip_base=8, stride=2),), "slots": BOTH}, "at least one iteration"),
        ({"loops": (Loop(0, 4, stride=2),), "slots": BOTH}, "no room"),
        ({"loops": (LOOP,), "slots": (Slot(0, (0,), 9),)}, "a stride for each loop"),
        ({"loops": (Loop(0, 4, cursor=True),), "slots": BOTH}, "loops with fixed places"),
        ({"streams": (Stream(0, words=24, cursor_base=8, cursor_capacity=9),)}, "no room"),
        ({"streams": (Stream(0, words=24, cursor_base=8, cursor_capacity=-1),)}, "no room"),
        ({"streams": (Stream(0, words=-1),)}, "lie one after another"),
        ({"streams": (Stream(0, words=8), Stream(1, base=7, words=8))}, "lie one after another"),
        ({"streams": (Stream(0, words=8, instances=0),)}, "lie one after another"),
    ],
)
def test_what_does_not_fit_is_refused(parts, words):
    with pytest.raises(TileProbeError, match=words):
        Layout(24, **parts)


def test_a_block_of_less_than_nothing_is_refused():
    Layout(0)
    for words in (-1, -24):
        with pytest.raises(TileProbeError, match="one after another"):
            Layout(words)


@pytest.mark.parametrize("capacity", [0, -3])
def test_a_cursor_without_a_segment_is_refused(capacity):
    with pytest.raises(TileProbeError, match=r"room|cursor_capacity"):
        allocate([Stamp(0)], all_cursor=True, cursor_capacity=capacity)
