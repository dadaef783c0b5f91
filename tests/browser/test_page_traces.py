"""The HTML report of traces out of the ordinary: asynchronous, interrupted, hostile, empty, partial, very large."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from made import attention
from made_streams import warp_specialised
from on_page import after, with_ir

from tileprobe.tools.regions import region_tree
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit
from tileprobe.views import text


def test_arcs_join_issue_and_wait(open_page):
    page = open_page(warp_specialised())
    page.wait_for_function("document.documentElement.dataset.arcs")
    edges = warp_specialised().edges.height
    assert int(page.evaluate("document.documentElement.dataset.arcs")) == edges


def test_what_is_estimated_is_marked(open_page):
    trace = attention(launches=1)
    sampled = replace(trace, frame=trace.intervals.with_columns(pl.lit(4.0, pl.Float32).alias("weight")))
    page = open_page(sampled)
    dot = page.locator("#regions tbody tr", has_text="dot @ 35").first
    assert dot.locator("td").nth(4).inner_text() == f"~{4 * 8 * 6}"
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 30)
    assert "stands for 4.0 executions" in page.locator("#tip").inner_text()
    assert "~" not in open_page(attention(launches=1)).locator("#regions").inner_text()


def test_interruptions_are_no_work(open_page):
    """Of every dot, five of six microseconds were taken by the operating system."""
    trace = attention(launches=1)
    taken = pl.when(pl.col("region") == 5).then(5000.0).otherwise(0.0).cast(pl.Float32).alias("taken_ns")
    page = open_page(replace(trace, frame=trace.intervals.with_columns(taken)))
    box = page.locator("#canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 20, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 120, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    assert "48.0 µs" in page.locator("#sums tr", has_text="dot @ 35").first.inner_text()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("dot @ 35")
    page.keyboard.press("Enter")
    after(page, lambda: None)
    for x in range(90, int(box["width"]), 12):
        page.mouse.move(box["x"] + x, box["y"] + 22 + 3 * 19 + 8)
        if "dot @ 35" in page.locator("#tip").text_content() and page.locator("#tip").is_visible():
            break
    assert "of it 5.00 µs interrupted by the operating system" in page.locator("#tip").inner_text()


HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    '<img src=x onerror="window.pwned = 2">',
    "<!--<script>",
    "a\x1b]0;owned\x07b\x00c\u202egnp.exe",
    "{{data}}{{script}}'\"&amp;\\u003c\\",
    "\ud800 half a letter \u2028 line",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_and_source_are_shown_as_text(open_page, name):
    trace = attention(launches=1, name=name)
    kernel = replace(
        trace.kernels[0],
        source=f"{name}\n{name}",
        file=f"/x/{name}.py",
        signature=name,
        ir={"ttir": name, name: name},
    )
    regions = [
        replace(r, name=name if r.id in (0, 5) else r.name, file=f"/x/{name}.py") for r in trace.regions
    ]
    page = open_page(
        replace(
            trace,
            kernels=[kernel],
            regions=regions,
            units=[Unit(0, name), Unit(1, name)],
            meta={"problems": {"a": name}},
        )
    )
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    texts = page.locator("body").inner_text()
    if name.isascii() and name.isprintable():
        assert name in texts
        assert name in page.title()
    else:
        assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", texts)
        assert "owned" in texts or "half a letter" in texts


def test_a_report_without_source_says_so_and_has_none(open_page, tmp_path):
    page = open_page(with_ir(attention()), source=False)
    assert "left out" in page.locator("#code").inner_text()
    text = (tmp_path / "report.html").read_text()
    assert "tl.load" not in text
    assert "examples/" not in text
    assert "dot @ 35" in text


def test_a_trace_of_nothing(open_page):
    nothing = Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[])
    assert "holds no kernel" in open_page(nothing).locator("#summary").inner_text()
    assert open_page(attention(launches=0)).locator("#regions").is_visible()


def many(programs, steps):
    """A trace of programs * (2 * steps + 1) intervals on 8 cores."""
    step = np.arange(steps)
    rows = programs * steps
    program = np.repeat(np.arange(programs), steps)
    begin = (program // 8) * (steps * 100 + 50) + np.tile(step * 100, programs)
    columns = {
        "program": np.r_[program, program, np.arange(programs)],
        "unit": np.r_[program, program, np.arange(programs)] % 8,
        "region": np.r_[np.full(rows, 1), np.full(rows, 2), np.zeros(programs)].astype(int),
        "iteration": np.r_[np.tile(step, 2 * programs), np.full(programs, -1)],
        "start": np.r_[begin, begin + 60, (np.arange(programs) // 8) * (steps * 100 + 50)],
    }
    columns["stop"] = np.r_[begin + 60, begin + 100, columns["start"][2 * rows :] + steps * 100]
    return Trace.build(
        columns,
        kernels=[Kernel(0, "many", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (programs,))],
        regions=[Region(0, "many", "kernel"), Region(1, "load", "load", 0), Region(2, "dot", "dot", 0)],
        units=[Unit(n, f"core {n}") for n in range(8)],
    )


def test_300_000_intervals_are_drawn_one_by_one(open_page):
    page = open_page(many(1000, 150))
    page.locator("#search").fill("dot")
    assert page.locator("#hits").inner_text() == "150,000 found"
    assert page.locator("#said").inner_text() == ""


def test_more_is_put_together_and_said(open_page):
    page = open_page(many(200, 100), limit=5000)
    said = page.locator("#said").text_content()
    assert re.search(r"[\d,]+ of 40,200 intervals are shorter than \S+ \S+ and drawn together", said)
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 22 + 15 + 7)
    assert "drawn as one" in page.locator("#tip").inner_text()
    dot = page.locator("#regions tbody tr", has_text="dot").first
    assert "20,000" in dot.inner_text()  # tables count each


def test_tracks_are_named_after_units_and_streams():
    from tileprobe.views.html.timeline import timeline

    names = [track["name"] for track in timeline(warp_specialised()).tracks]
    assert names[0] == "SM 0 / lane 0 / producer"
    assert [track["name"] for track in timeline(attention()).tracks] == ["core 0", "core 1"]


def test_a_launch_of_which_a_part_was_recorded_says_that_gaps_need_not_be_idle(open_page):
    trace = attention(launches=2)
    trace.launches[0] = replace(trace.launches[0], losses=Losses(60, 40, 100))
    page = open_page(trace)
    for launch, said in (
        ("0", "30 % recorded: gaps need not be idle"),
        ("1", ""),
        ("all", ""),
    ):
        after(page, lambda launch=launch: page.select_option("#launch", launch))
        assert page.locator("#said").inner_text() == said
    # a launch that lies beside it, as the units of Cambricon-LLM do
    beside = trace.intervals.with_columns(pl.col("start_ns").min().over("launch").alias("first"))
    beside = beside.with_columns(
        (pl.col(end) - pl.col("first")).alias(end) for end in ("start_ns", "stop_ns")
    )
    page = open_page(replace(trace, frame=beside.drop("first")))
    after(page, lambda: page.select_option("#launch", "1"))
    assert page.locator("#said").inner_text() == "30 % recorded: gaps need not be idle"


def test_a_slice_of_less_than_a_nanosecond_is_as_long_as_it_was(open_page):
    """One cycle at 1,410 MHz."""
    count = 40
    trace = Trace.build(
        {
            "region": np.r_[0, np.ones(count, int)],
            "start": np.r_[0, np.arange(count)],
            "stop": np.r_[count, 1 + np.arange(count)],
        },
        kernels=[Kernel(0, "k", "sim:a100", Clock(1.41e9, "simulated"))],
        launches=[Launch(0, 0, (1,), 0.0, 30.0)],
        regions=[Region(0, "k", "kernel"), Region(1, "copy", "copy", 0)],
        units=[Unit(0, "SM 0", "sm")],
    )
    page = open_page(trace)
    page.locator("#scroller").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    said = page.locator("#live").inner_text()
    assert said.startswith("copy, 0.71 ns, ") and ("1.00 times its median" in said or "0.99 times" in said)


def test_a_histogram_has_the_p50_of_the_tree(open_page):
    """A launch that stands for nine, and is slow."""
    trace = attention(launches=2, noise=0.2)
    rows = trace.intervals.with_columns(
        pl.when(pl.col("launch") == 1).then(pl.col("weight") * 9).otherwise(pl.col("weight"))
    )
    trace = replace(trace, frame=rows)
    dot = region_tree(trace, trace.kernels[0]).filter(pl.col("name") == "dot @ 35").row(0, named=True)
    page = open_page(trace)
    page.locator("#regions tbody tr", has_text="dot @ 35").first.click()
    label = page.locator("#details canvas[aria-label^=histogram]").get_attribute("aria-label")
    assert label == f"histogram of dot @ 35: p50 {text.duration(dot['p50_ns'])}"
