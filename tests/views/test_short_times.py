"""Intervals shorter than a nanosecond, as a GPU's single instructions are: our own timelines draw them as they are."""

import numpy as np
import pytest
from test_html_data import unpack
from test_terminal_timeline import legend_of, printed, track

from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit
from tileprobe.views.html.timeline import timeline
from tileprobe.views.tracks import FINE_NS, grain_ns, tracks

CYCLE = 1 / 1.41  # nanoseconds
NAMES = ("copy", "mma", "line")


def instructions(count=200, clock=1.41e9, each=1):
    """A warp that issues an instruction each cycle, of three lines in turn."""
    start = np.arange(count) * each
    return Trace.build(
        {
            "region": np.r_[0, 1 + np.arange(count) % 3],
            "start": np.r_[0, start],
            "stop": np.r_[count * each, start + each],
        },
        kernels=[Kernel(0, "k", "sim:a100", Clock(clock, "simulated"))],
        launches=[Launch(0, 0, (1,), 0.0, count * each / clock * 1e9, losses=Losses(count + 1))],
        regions=[Region(0, "k", "kernel"), *(Region(1 + n, name, "line", 0) for n, name in enumerate(NAMES))],
        units=[Unit(0, "SM 0", "sm")],
    )


def test_the_page_has_them_to_a_hundredth_of_a_cycle():
    made = timeline(instructions())
    columns = unpack(made.packed, made.about["columns"])
    assert made.about["grain_ns"] == FINE_NS
    start, length = (columns[name] * FINE_NS for name in ("start", "length"))
    assert length[0] == pytest.approx(200 * CYCLE, abs=FINE_NS)
    np.testing.assert_allclose(length[1:], CYCLE, atol=1.01 * FINE_NS)
    np.testing.assert_allclose(start[1:], np.arange(200) * CYCLE, atol=FINE_NS)
    assert made.tracks[0]["rows"] == 2  # the kernel, and all lines below it


def test_what_lasts_longer_is_kept_in_whole_nanoseconds():
    longer = instructions(each=50)
    assert grain_ns(longer) == timeline(longer).about["grain_ns"] == 1.0
    assert grain_ns(instructions(count=0)) == 1.0
    others = tracks(instructions()).frame["start_ns"]  # for viewers of others
    assert (others == others.round(0)).all()


def test_the_terminal_shows_the_lines_and_not_the_kernel_around_them():
    text = printed(instructions(count=90), 120)
    assert {legend_of(text)[letter] for letter in track(text, "SM 0")} == set(NAMES)


def test_a_slice_of_no_time_is_around_nothing():
    """It begins with the kernel and comes first; what follows is in the kernel all the same."""
    one = instructions(count=90)
    frame = one.to_polars()
    zero = {name: frame[name].to_list() for name in ("region", "start", "stop")}
    zero = {"region": [2, *zero["region"]], "start": [0, *zero["start"]], "stop": [0, *zero["stop"]]}
    trace = Trace.build(
        zero, kernels=one.kernels, launches=one.launches, regions=one.regions, units=one.units
    )
    text = printed(trace, 120)
    assert {legend_of(text)[letter] for letter in track(text, "SM 0")} == set(NAMES)
