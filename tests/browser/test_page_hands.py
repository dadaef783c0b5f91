"""What hands do on the page beyond the first click: ruler, rows, keys, long lists; and figures as in every report."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from made import attention
from made_streams import warp_specialised
from on_page import TILE, after, shown

from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit
from tileprobe.views import text

LENGTHS = [0.3, 9.994, 9.996, 99.94, 99.96, 999.4, 999.6, 12_345, 999_600, 3_456_789, 4.5e9]


def lasting(lengths, kind="load", **more):
    """A kernel with one stage of each length, one after the other."""
    stop = np.cumsum(lengths)
    return Trace.build(
        {
            "region": np.r_[0, 1 + np.arange(len(lengths))],
            "start_ns": np.r_[0, stop - lengths],
            "stop_ns": np.r_[stop[-1], stop],
            "start": np.zeros(len(lengths) + 1),
            "stop": np.zeros(len(lengths) + 1),
            **more,
        },
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (1,), 0.0, float(stop[-1]), losses=Losses(len(lengths) + 1))],
        regions=[Region(0, "k", "kernel"), *(Region(1 + n, f"s{n}", kind, 0) for n in range(len(lengths)))],
        units=[Unit(0, "core 0", "core")],
    )


def ranged(page, y):
    """A range dragged over the whole width at this height."""
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + y, steps=3)
    page.mouse.up()


PIXELS = """(c) => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height);
  const ratio = window.devicePixelRatio; window.at = (x, y) => {
    const i = 4 * (Math.round(y * ratio) * d.width + Math.round(x * ratio)); return [...d.data.slice(i, i + 3)]; };
  return d.width / ratio; }"""


def test_durations_are_written_as_in_every_report(open_page):
    page = open_page(lasting(np.array(LENGTHS)), width=1700)
    for n, length in enumerate(LENGTHS):
        row = page.locator(f"#regions tr[data-region='{n + 1}']")
        assert row.locator("td.mean").inner_text() == text.duration(length), length
    shares = page.locator("#regions tbody td.share span").all_inner_texts()
    assert shares[:4] == ["100 %", "<0.1 %", "<0.1 %", "<0.1 %"] and shares[-1] == "100 %"


def test_the_ruler_selects_a_range_and_f_zooms_to_it(open_page):
    page = open_page(attention())
    low, high = shown(page)
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 800, box["y"] + 8, steps=3)
    page.mouse.up()
    assert shown(page) == (low, high) and page.locator("#sums tr").count() > 2
    a = after(page, lambda: page.keyboard.press("f"))
    assert a[1] - a[0] == pytest.approx(300 / (box["width"] - 500) * (high - low), rel=0.6)
    assert a[1] - a[0] < 0.5 * (high - low)


def test_own_times_of_a_range_leave_out_what_is_inside_and_what_is_asynchronous(open_page):
    """24 streams of 350 ns; copies run beside the producer and are no work of its own."""
    page = open_page(warp_specialised(), height=1400)
    ranged(page, 8)
    cells = page.locator("#sums tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    sums = {name: time for name, time, _ in cells}
    ns = {name: float(time.split()[0]) * (1000 if "µ" in time else 1) for name, time in sums.items()}
    own = {"ws": 3280, "loop @ 8": 1280, "dot @ 9": 2880, "copy @ 7": 960}
    assert ns == {name: pytest.approx(time, rel=0.01) for name, time in own.items()}


def test_walking_stays_in_its_row(open_page):
    page = open_page(lasting(np.array([100.0, 200.0, 300.0])))
    page.locator("#scroller").focus()
    seen = []
    for key in ["ArrowRight", "ArrowDown", *["ArrowRight"] * 5, *["ArrowLeft"] * 7, "ArrowUp"]:
        page.keyboard.press(key)
        seen.append(page.locator("#live").inner_text().split(",")[0])
    assert seen[1:7] == ["s0", "s1", "s2", "s2", "s2", "s2"]
    assert seen[7:] == ["s1", "s0", "s0", "s0", "s0", "s0", "s0", "k · program 0"]


def test_the_slowest_program_is_the_bright_cell_and_those_not_recorded_are_counted(open_page):
    programs = [n for n in range(12) if n not in (3, 9)]
    trace = Trace.build(
        {
            "program": programs,
            "region": [0] * 10,
            "start": [1000 * n for n in range(10)],
            "stop": [
                1000 * n + (900 if program == 5 else 100 + program) for n, program in enumerate(programs)
            ],
        },
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (12,), 0.0, 1e4, losses=Losses(10, 2))],
        regions=[Region(0, "k", "kernel")],
        units=[Unit(0, "core 0", "core")],
    )
    page = open_page(trace)
    assert "over the grid of 12, 2 not recorded" in page.locator("#details").inner_text()
    canvas = page.locator("#details canvas[aria-label*='each program of the grid']")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    size = min(box["width"] / 12, 18)
    canvas.evaluate(PIXELS)
    cells = page.evaluate(f"[...Array(12).keys()].map((n) => window.at((n + 0.4) * {size}, 4))")
    light = [red - blue for red, _, blue in cells]
    assert light.index(max(light)) == 5  # the yellow end of the scale
    page.mouse.move(box["x"] + 5.5 * size, box["y"] + 4)
    assert page.locator("#tip").inner_text().split("\n") == ["program 5", "900 ns in k"]
    page.mouse.move(box["x"] + 3.5 * size, box["y"] + 4)
    assert page.locator("#tip").inner_text().split("\n") == ["program 3", "not recorded"]


def test_shares_that_are_little_are_not_nothing(open_page):
    page = open_page(lasting(np.array([1e6, 400.0, 700.0])))
    shares = page.locator("#regions tbody td.share span").all_inner_texts()
    assert shares == ["100 %", "100 %", "<0.1 %", "0.1 %"]


def test_rows_that_are_sorted_are_not_indented_and_the_wheel_with_alt_leaves_the_view(open_page):
    page = open_page(attention(launches=1))
    indents = "rows => rows.map((row) => parseFloat(getComputedStyle(row).paddingLeft))"
    names = page.locator("#regions tbody .name")
    assert max(names.evaluate_all(indents)) > 20
    page.locator("#regions th button").nth(2).click()
    assert max(names.evaluate_all(indents)) == 0
    before = shown(page)
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.keyboard.down("Alt")
    assert after(page, lambda: page.mouse.wheel(0, -300)) == before
    page.keyboard.up("Alt")
    assert after(page, lambda: page.mouse.wheel(0, -300)) != before


def test_many_small_regions_are_folded_until_asked_for(open_page):
    page = open_page(lasting(np.array([1e6, *[1.0] * 80])))
    assert page.locator("#regions tbody tr").count() == 2
    page.get_by_text("+ 80 regions below 0.2 %").click()
    assert page.locator("#regions tbody tr").count() == 82


def test_another_kernel_shows_its_own_launch_and_tracks(open_page):
    other = replace(attention(name="other", launches=3), units=[Unit(n, f"SM {n}", "sm") for n in range(2)])
    page = open_page(Trace.merge(attention(launches=3), other))
    first = shown(page)
    after(page, lambda: page.locator(".kernels button").nth(1).click())
    assert shown(page) != first
    chosen = page.locator("#launch option:checked").inner_text()
    assert chosen.endswith("other")
    tall = page.locator("#tall").bounding_box()["height"]
    after(page, lambda: page.locator("#launch").select_option("all"))
    assert (
        page.locator("#tall").bounding_box()["height"] > 1.5 * tall
    )  # tracks of the other one take room again


def test_long_lines_of_ir_are_cut(open_page):
    trace = attention(launches=1)
    tile = TILE.replace('"tt.load"(%1)', '"tt.load"(' + "%1, " * 1000 + ")")
    page = open_page(replace(trace, kernels=[replace(trace.kernels[0], ir={"tile": tile})]))
    line = page.locator("#ir .row").nth(2).inner_text()
    assert 380 < len(line) < 440 and line.endswith("…")


def test_what_was_interrupted_for_much_of_its_time_is_striped(open_page):
    """Of two stages the second was interrupted for half of its time: rows of pixels differ there."""
    trace = lasting(np.array([1000.0, 1000.0]), taken_ns=[0.0, 0.0, 500.0])
    page = open_page(trace)
    wide = page.locator("#canvas").evaluate(PIXELS)
    colours = [
        {
            tuple(page.evaluate(f"window.at({132 + (wide - 132) * share}, {22 + 19 + 3 + y})"))
            for y in range(12)
        }
        for share in (0.35, 0.85)
    ]
    assert len(colours[0]) == 1 and len(colours[1]) == 2


def test_a_search_for_a_kind_and_backwards(open_page):
    page = open_page(attention(launches=1))
    page.locator("#search").fill("iteration")
    assert page.locator("#hits").inner_text() == f"{8 * 6:,} found"
    page.locator("#search").fill("load")
    every = page.locator("#hits").inner_text()
    assert every == f"{8 + 2 * 8 * 6:,} found"
    page.locator("#search").fill("reduce+exp+mul")
    assert page.locator("#hits").inner_text() == f"{8 * 6:,} found"  # a kind, which no name has
    a = after(page, lambda: page.keyboard.press("Enter"))
    b = after(page, lambda: page.keyboard.press("Enter"))
    c = after(page, lambda: page.keyboard.press("Enter"))
    assert a[0] <= b[0] < c[0] or a[0] < b[0]
    assert after(page, lambda: page.keyboard.press("Shift+Enter")) == b
    assert pl.Series([b[0]]).is_between(a[0], c[0]).all()
