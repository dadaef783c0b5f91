"""What does not fit: nothing that a reader needs is cut off, in wide windows and narrow ones."""

import json
from dataclasses import replace

import pytest
from made import attention

from tileprobe.ir.machine import INSTRUCTIONS, Clock
from tileprobe.views.html import write_html
from tileprobe.views.text import duration

LONG = "a_kernel_with_a_very_long_name_" * 4


def with_levels(trace, count=7):
    ir = dict.fromkeys(("ttir", "ttgir", "probes", "records", "probed", "ptx", "sass")[:count], "module {}")
    return replace(trace, kernels=[replace(trace.kernels[0], ir=ir)])


def inside(page, what, box):
    """Whether an element lies inside of another from side to side."""
    one, other = (page.locator(name).first.bounding_box() for name in (what, box))
    return one["x"] >= other["x"] - 0.5 and one["x"] + one["width"] <= other["x"] + other["width"] + 0.5


def fits(page, what):
    """Whether its text has room."""
    return page.locator(what).first.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_the_tree_has_all_its_columns_beside_source_and_ir(open_page):
    page = open_page(with_levels(attention()), width=1600, height=1000)
    assert page.locator("#code").is_visible() and page.locator("#ir").is_visible()
    heads = page.locator("#regions th:visible").all_inner_texts()
    assert heads == ["region", "share", "total", "self", "count", "mean", "p50", "p95"]
    assert fits(page, "#regions .body")


@pytest.mark.parametrize("width", [420, 700, 1100, 1280, 1440, 2200])
def test_the_tree_fits_its_pane(open_page, width):
    page = open_page(with_levels(attention()), width=width)
    assert fits(page, "#regions .body")
    page.set_viewport_size({"width": 1090, "height": 800})
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert fits(page, "#regions .body")


def test_findings_are_shown_whole_and_the_rest_when_asked_for_by_keys(open_page, tmp_path):
    write_html(attention(), tmp_path / "one.html")
    said = [{"text": f"{n} " + "of many words " * 30, "level": "finding", "kernel": 0} for n in range(9)]
    said += [{"text": f"careful {n}", "level": "warning", "kernel": 0} for n in range(5)]
    text = (tmp_path / "one.html").read_text().replace('"findings":[', f'"findings":{json.dumps(said)[:-1]},')
    (tmp_path / "more.html").write_text(text)
    page = open_page(file=tmp_path / "more.html", height=800)
    items = page.locator(".findings li:not(.button)")
    hidden = items.count() - page.locator(".findings li:not(.button):visible").count()
    assert hidden > 1
    assert (
        page.locator(".findings li.warning:visible").count()
        == page.locator(".findings li.warning").count()
        >= 5
    )
    assert page.locator("#say").inner_text() == f"show {hidden} more"
    page.locator("#say").focus()
    page.keyboard.press("Enter")
    assert page.locator(".findings li:not(.button):visible").count() == items.count()
    assert page.locator(".findings").evaluate("e => e.scrollHeight <= e.clientHeight")
    assert page.locator("#regions").bounding_box()["height"] > 300
    assert page.evaluate("document.activeElement.id") == "say"
    page.keyboard.press("Enter")
    page.emulate_media(media="print")
    assert page.locator(".findings li:not(.button):visible").count() == items.count()
    assert not page.locator("#say").is_visible()


def test_the_launch_chooser_says_how_long(open_page):
    page = open_page(attention(name=LONG))
    chosen = page.locator("#launch option:checked").inner_text()
    assert chosen.startswith("launch 2 · ") and " µs · " in chosen[:30]
    lasted = [replace(launch, duration_ns=3 * launch.duration_ns) for launch in attention().launches]
    longer = open_page(replace(attention(), launches=lasted))  # with what lies before and behind its programs
    want = duration(lasted[2].duration_ns)
    assert longer.locator("#launch option:checked").inner_text() == f"launch 2 · {want} · attention"
    for width in (1440, 420):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator("#launch").bounding_box()["width"] > 150  # room for launch and time


def test_launches_beyond_the_list_are_counted(open_page):
    page = open_page(attention(launches=2003, programs=1, iterations=1))
    options = page.locator("#launch option")
    assert options.count() == 2002
    assert options.last.inner_text() == "+ 3 more: search launch N" and options.last.is_disabled()
    page.locator("#search").fill("launch 2002")
    page.locator("#search").press("Enter")
    assert page.locator("#hits").inner_text().startswith("1")


def test_all_levels_of_ir_can_be_chosen(open_page):
    page = open_page(with_levels(attention()), width=1440)
    for tab in page.locator("#ir .tabs button").all():
        box, pane = tab.bounding_box(), page.locator("#ir").bounding_box()
        assert box["x"] + box["width"] <= pane["x"] + pane["width"]
        tab.click()
    assert page.locator("#ir [aria-selected=true]").inner_text() == "SASS"


def test_counts_of_instructions_have_room_beside_shares(open_page):
    trace = attention()
    counted = replace(
        trace, kernels=[replace(trace.kernels[0], target="sim:a100", clock=Clock(1e9, INSTRUCTIONS))]
    )
    page = open_page(counted)
    row = page.locator("#code .row.live").first
    assert "instr" in row.inner_text()
    for cell in page.locator("#code .row.live .t").all():
        assert cell.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_kernels_with_long_names_say_their_time(open_page):
    trace = attention()
    kernels = [replace(trace.kernels[0], id=n, name=f"{LONG}{n}") for n in range(100)]
    page = open_page(replace(trace, kernels=kernels), width=1600)
    for button in page.locator(".kernels button").all():
        time, box = button.locator(".dim").bounding_box(), button.bounding_box()
        assert time["x"] + time["width"] <= box["x"] + box["width"]
        assert button.locator(".what").evaluate("e => e.scrollWidth > e.clientWidth")  # the name gave way
        assert LONG in button.get_attribute("title")


def test_the_p50_of_a_histogram_is_written_above_its_bars(open_page):
    """In the row of the label, of the bars' colour there is nothing."""
    page = open_page(attention(noise=0.3))
    page.locator("#regions tbody tr", has_text="dot @ 35").first.click()
    picture = page.locator("#details canvas[aria-label^=histogram]")
    bars = picture.evaluate(
        """c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = [0, 0];
          const row = 14 * window.devicePixelRatio;
          for (let i = 0; i < d.length; i += 4) {
            const spread = Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]);
            if (d[i + 3] > 200 && spread > 60) seen[i / 4 / c.width < row ? 0 : 1]++;
          }
          return seen; }"""
    )
    assert bars[0] == 0 and bars[1] > 100


def test_details_say_that_there_is_more_below(open_page):
    page = open_page(attention(), width=1280, height=700)
    page.locator("#regions tbody tr", has_text="dot @ 35").first.click()
    assert page.locator("#below").inner_text() == "▾ more below"
    for _ in range(8):
        if page.locator("#below").is_visible():
            page.locator("#below").press("Enter")
            page.wait_for_timeout(50)
    assert not page.locator("#below").is_visible()
    assert page.locator("#details").evaluate("e => e.scrollHeight - e.clientHeight - e.scrollTop < 28")


@pytest.mark.parametrize("width", [360, 420, 620, 1090])
def test_zoom_buttons_are_never_cut_off(open_page, width):
    page = open_page(attention(name=LONG), width=width, height=800)
    for button in ("#fit", "#in", "#out"):
        assert inside(page, button, "#timebar")
