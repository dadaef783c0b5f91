"""The HTML report in a browser: what it shows is what the trace says, and what a user does has its effect."""

from dataclasses import replace

import polars as pl
import pytest
from made import attention
from on_page import TILE, after, lit, shown, with_ir

from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.regions import region_tree
from tileprobe.trace import Trace
from tileprobe.views import text


@pytest.fixture
def page(open_page):
    return open_page(with_ir(attention()))


def test_the_tree_shows_the_figures_of_the_tool(page):
    trace = attention()
    rows = region_tree(trace, trace.kernels[0])
    names = page.locator("#regions tbody tr .name").all_inner_texts()
    assert [name.strip() for name in names] == rows["name"].to_list()
    dot = page.locator("#regions tbody tr", has_text="dot @ 35").first
    assert dot.locator("td").nth(4).inner_text() == f"{5 * 8 * 6:,}"
    share = rows.filter(pl.col("name") == "dot @ 35")["share"].item()
    assert f"{100 * share:.0f} %" in dot.inner_text()
    assert "is in dot @ 35" in page.locator(".findings").inner_text()


def test_kernels_have_the_time_of_their_launches_as_in_every_report(open_page):
    """Programs run side by side, so that their sum is longer: it is the tree's, under the kernel's name."""
    trace = Trace.merge(attention(name="long"), attention(name="short", iterations=2))
    trace = replace(trace, works=[replace(work, ran=3 * work.ran) for work in trace.works])
    totals = kernel_totals(trace)
    page = open_page(trace)
    assert page.locator("#title").inner_text() == "long, short on cpu"
    for n, row in enumerate(totals.iter_rows(named=True)):
        button = page.locator(".kernels button").nth(n)
        assert button.inner_text().split() == [
            row["name"], *text.duration(row["total_ns"]).split(), "·", *text.percent(row["share"]).split(), "·", "cpu"
        ]  # fmt: skip
        button.click()
        facts = {
            f.locator("dt").inner_text(): f.locator("dd").inner_text() for f in page.locator(".fact").all()
        }
        assert facts["total"].startswith(f"~{text.duration(row['total_ns'])}")
        assert facts["a launch"].startswith(text.duration(row["each_ns"]))
        assert facts["launches"].startswith("15")
    programs = region_tree(trace, trace.kernels[0])["total_ns"][0]
    assert programs > 1.5 * totals["total_ns"][0]


def test_nothing_is_no_estimate(open_page):
    trace = attention(launches=1)
    page = open_page(
        replace(trace, frame=trace.intervals.with_columns(pl.lit(4.0, pl.Float32).alias("weight")))
    )
    cells = page.locator("#regions tbody td.self").all_inner_texts()
    assert "0" in cells and "~0" not in cells and any(cell.startswith("~") for cell in cells)


def test_columns_sort_and_go_back_to_the_tree(page):
    def first():
        return page.locator("#regions tbody tr .name").nth(0).inner_text().strip()

    page.get_by_role("button", name="total").click()
    assert first() == "attention"
    page.get_by_role("button", name="total").click()
    assert first() == "div + store @ 44-45"
    page.get_by_role("button", name="total").click()
    assert page.locator("#regions tbody tr .name").nth(1).inner_text().strip() == "load @ 26"


def test_a_line_lights_up_its_region_its_ir_and_its_slices(page):
    before = page.locator("#canvas").screenshot()
    page.locator("#code .row", has_text="s = tl.dot(q, k)").click()
    assert lit(page, "regions").inner_text().startswith("dot @ 35")
    assert [row.split()[1] for row in lit(page, "ir").all_inner_texts()] == ["tile.dot"]
    after(page, lambda: None)
    assert page.locator("#canvas").screenshot() != before  # all but the dot is dimmed
    assert page.locator("#details h2").inner_text().strip() == "dot @ 35"


def test_a_line_of_ir_lights_up_the_source_it_came_from(page):
    page.locator("#ir .row", has_text="math.exp").click()  # inside of a stage of four lines
    assert [int(row.split()[-1]) for row in lit(page, "code").locator(".n").all_inner_texts()] == [
        36,
        37,
        38,
        39,
    ]
    assert lit(page, "regions").inner_text().startswith("reduce + exp + mul @ 36-39")


def test_a_slice_lights_up_its_line(page):
    page.locator("#scroller").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(
            key
        )  # program, its first stage, the loop, an iteration, its first and second stage
    assert "dot @ 35" in page.locator("#live").inner_text()
    assert "iteration 0" in page.locator("#live").inner_text()
    assert "s = tl.dot(q, k)" in lit(page, "code").inner_text()


def test_a_click_selects_the_slice_under_the_mouse(page):
    box = page.locator("#canvas").bounding_box()
    page.mouse.click(box["x"] + 400, box["y"] + 22 + 19 * 1 + 6)  # the second row: the loop
    assert lit(page, "regions").inner_text().startswith("loop @ 31")


def test_wheel_keys_and_drag_zoom_and_pan(page):
    box = page.locator("#canvas").bounding_box()
    low, high = shown(page)
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    a = after(page, lambda: page.mouse.wheel(0, -300))
    assert low < a[0] < a[1] < high
    b = after(page, lambda: page.keyboard.press("w"))
    assert a[0] < b[0] < b[1] < a[1]
    c = after(page, lambda: page.keyboard.press("d"))
    assert c[0] > b[0] and c[1] - c[0] == pytest.approx(b[1] - b[0])
    d = after(page, lambda: page.keyboard.press("a"))
    assert d == pytest.approx(b)
    assert after(page, lambda: page.keyboard.press("s")) == pytest.approx(a)

    def drag():
        page.mouse.down()
        page.mouse.move(box["x"] + 500, box["y"] + 60)
        page.mouse.up()

    e = after(page, drag)
    assert e[0] > a[0] and e[1] - e[0] == pytest.approx(a[1] - a[0])
    assert after(page, lambda: page.keyboard.press("0")) == pytest.approx((low, high))


def test_a_range_sums_what_it_covers(page):
    """Over everything, the sums are the own times of the launch that is shown."""
    box = page.locator("#canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 50, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 120, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    found = {row.split("\n")[0].strip(): row for row in page.locator("#sums tr").all_inner_texts()}
    first = next(text for text in found.values() if text.strip().startswith("dot @ 35"))
    assert "288 µs" in first  # 6,000 ns in 8 programs of 6 iterations
    page.keyboard.press("Escape")
    assert page.locator("#sums").count() == 0


def test_search_counts_and_goes_to_what_it_finds(page):
    page.keyboard.press("/")
    page.keyboard.type("dot")
    assert page.locator("#hits").inner_text() == f"{2 * 5 * 8 * 6:,} found"
    assert lit(page, "regions").count() == 2
    low, high = shown(page)
    a = after(page, lambda: page.keyboard.press("Enter"))
    assert high - low > 3 * (a[1] - a[0])

    def many(key):
        for _ in range(20):  # two dots on two cores: five iterations on
            page.keyboard.press(key)

    b = after(page, lambda: many("Enter"))
    assert b[0] > a[0] + 40_000
    assert after(page, lambda: many("Shift+Enter"))[0] == a[0]
    page.locator("#search").fill("program 3")
    assert page.locator("#hits").inner_text() == f"{5 * (4 + 6 * 6):,} found"
    page.locator("#search").fill("no such thing")
    assert page.locator("#hits").inner_text() == "nothing"


def test_the_launch_that_is_shown_first_is_the_least_disturbed(open_page):
    trace = attention(launches=5)
    disturbed = pl.when(pl.col("launch") != 3).then(9000.0).otherwise(0.0).cast(pl.Float32).alias("taken_ns")
    page = open_page(replace(trace, frame=trace.intervals.with_columns(disturbed)))
    assert page.locator("#launch").input_value() == "3"


def test_one_launch_or_all(page):
    one = shown(page)
    everything = after(page, lambda: page.locator("#launch").select_option("all"))
    assert everything[1] - everything[0] > 4.9 * (one[1] - one[0])
    third = after(page, lambda: page.locator("#launch").select_option("2"))
    assert third[0] == pytest.approx(2 * everything[1] / 5, rel=0.1)


def test_the_details_show_distributions(page):
    labels = [c.get_attribute("aria-label") for c in page.locator("#details canvas").all()]
    assert any(text == "time of dot @ 35 over iterations 0 to 5" for text in labels)
    assert any("in each program of the grid, 36.0 µs to 36.0 µs" in text for text in labels)


def test_a_roofline_shows_rates_below_what_the_machine_can(open_page):
    trace = attention(launches=2, programs=4)
    trace.regions = [
        replace(r, flops=100_000 if r.kind == "dot" else 0, bytes=64 if r.kind == "dot" else 0)
        for r in trace.regions
    ]
    roofs = {"unit": "core", "flops_per_s": [["fma", 100e9]], "bytes_per_s": [["memory", 20e9]], "said": ""}
    trace.meta["roofs"] = {trace.kernels[0].target: roofs}
    page = open_page(trace)
    page.locator("#regions .row, #regions tr", has_text="dot").first.click()
    details = page.locator("#details")
    assert "roofline, rates of a core" in details.inner_text()
    assert "% of fma" in details.inner_text()
    assert "FLOP for each byte" in details.inner_text()
    picture = details.locator("canvas[aria-label^=roofline]")
    drawn = picture.evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v)"
    )
    assert drawn


def test_without_amounts_there_is_no_roofline(open_page):
    page = open_page(attention(launches=2, programs=4))
    page.locator("#regions .row, #regions tr", has_text="dot").first.click()
    assert "roofline" not in page.locator("#details").inner_text()


def test_the_tree_is_walked_and_chosen_from_by_keys(page):
    page.locator("#regions tbody tr").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert lit(page, "regions").inner_text().startswith("load @ 26")


def test_every_list_is_one_stop_of_the_tab_key(open_page):
    """However many lines of IR there are, the timeline is not hundreds of keys away."""
    trace = attention()
    tile = TILE.replace(
        '    %2 = "tt.load"(%1) : (i64) -> f32\n', '    %2 = "tt.load"(%1) : (i64) -> f32\n' * 300
    )
    page = open_page(replace(trace, kernels=[replace(trace.kernels[0], ir={"tile": tile})]))
    page.locator("#search").focus()
    stops = []
    while "scroller" not in stops and len(stops) < 40:
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate("document.activeElement.id || document.activeElement.closest('section').id")
        )
    assert stops.count("regions") == 8 + 1 and stops.count("code") == 1  # the columns and one row
    assert stops.count("ir") == 2 and stops[-1] == "scroller"  # the level and one line


def test_source_and_ir_are_walked_and_chosen_from_by_keys(page):
    line = page.locator("#code .row", has_text="s = tl.dot(q, k)")
    line.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert line.evaluate("row => row === document.activeElement")
    page.keyboard.press("ArrowUp")  # over a comment, which has no time
    page.keyboard.press("Enter")
    assert "tl.load(K" in lit(page, "code").first.inner_text()
    page.locator("#ir .live").nth(1).focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press(" ")
    assert "tl.load(K" in lit(page, "code").first.inner_text()
    assert page.locator("#ir [tabindex='0']").count() == 1


def test_light_dark_and_print(open_page):
    def back(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light, dark = (open_page(attention(), theme=theme) for theme in ("light", "dark"))
    assert back(light) != back(dark)
    light.locator("#theme").click()
    assert back(light) == back(dark)
    light.emulate_media(media="print")
    assert not light.locator("#tools").is_visible()
    assert light.locator("#regions").is_visible() and light.locator("#canvas").is_visible()
    body = light.locator("#code .body")
    assert body.evaluate("e => e.scrollHeight - e.clientHeight") <= 1  # nothing is cut off on paper


def test_paper_shows_the_whole_width_of_the_timeline_in_light_colours(open_page):
    """Whatever the window's width and theme; and then the window is as it was."""
    drawn = {}
    for width in (1600, 420):
        page = open_page(attention(), width=width, theme="dark")
        kept = shown(page), page.evaluate("document.getElementById('canvas').width")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        drawn[width] = page.evaluate("document.getElementById('canvas').toDataURL()")
        wide = page.evaluate("document.getElementById('canvas').width")
        assert wide / page.evaluate("document.getElementById('canvas').height") == pytest.approx(
            page.evaluate(
                "(b => b.width / b.height)(document.getElementById('canvas').getBoundingClientRect())"
            ),
            rel=0.02,
        )
        assert (
            page.locator("#canvas").bounding_box()["width"]
            <= page.locator("#scroller").bounding_box()["width"]
        )
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        assert page.locator(
            "#regions th.wide"
        ).first.is_visible()  # p50 and p95, however narrow the window is
        chart = page.locator("#details canvas").first
        assert (
            chart.evaluate("c => c.width") == chart.bounding_box()["width"]
        )  # neither stretched nor squeezed
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert (shown(page), page.evaluate("document.getElementById('canvas').width")) == kept
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert drawn[1600] == drawn[420]


def test_charts_follow_the_width_of_the_window(open_page):
    page = open_page(attention(), width=1600)
    page.set_viewport_size({"width": 1000, "height": 800})
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    chart = page.locator("#details canvas").first
    assert chart.evaluate("c => c.width") == pytest.approx(chart.bounding_box()["width"], abs=1)


def test_a_narrow_window_needs_no_sideways_scrolling(open_page):
    page = open_page(attention(), width=420, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
