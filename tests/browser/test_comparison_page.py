"""Two traces side by side, in a browser."""

from dataclasses import replace

import polars as pl
import pytest
from made import attention

from tileprobe.cli import main
from tileprobe.views.html.comparison import write_comparison


@pytest.fixture
def page(open_page, tmp_path):
    a, b = attention(noise=0.02, launches=8), attention(noise=0.02, launches=8, slow=1.5, seed=1)
    kernel = b.kernels[0]
    source = kernel.source.replace("        # the scores of this block\n", "        # <b>scores</b>\n")
    b.kernels = [replace(kernel, source=source)]
    a.save(tmp_path / "before.parquet")
    b.save(tmp_path / "after.parquet")
    files = [str(tmp_path / name) for name in ("before.parquet", "after.parquet")]
    assert main(["compare", *files, "--html", str(tmp_path / "change.html")]) == 0
    return open_page(file=tmp_path / "change.html")


def test_what_hardly_differs_does_not_look_like_much(open_page, tmp_path):
    a, b = (attention(launches=8, slow=slow) for slow in (1.0, 1.0001))
    write_comparison(a, b, tmp_path / "same.html", ("a", "b"))
    page = open_page(file=tmp_path / "same.html")
    assert set(page.locator(".change").all_inner_texts()) == {"0.0 %"}
    assert not page.locator(".lines .h i").count() and not "".join(page.locator(".delta").all_inner_texts())


def test_a_narrow_window_has_the_figures(open_page, tmp_path, page):
    page.set_viewport_size({"width": 420, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    dot = page.locator(".compare tr", has_text="dot @ 35").first
    cells = [cell for cell in dot.locator("td").all() if cell.is_visible()]
    ends = [cell.bounding_box()["x"] + cell.bounding_box()["width"] for cell in cells]
    assert len(cells) == 6 and max(ends) <= 420  # name, both times, change, noise, sign
    assert cells[-1].inner_text().strip() == "▲"
    code = page.locator(".lines .row", has_text="tl.dot").first
    assert code.locator("> span").last.bounding_box()["x"] < 210


def test_regions_have_both_times_the_change_and_a_verdict(page):
    assert "before.parquet" in page.locator("#title").inner_text()
    dot = page.locator(".compare tr", has_text="dot @ 35").first
    assert "+5" in dot.locator(".change").inner_text()  # half as long again, give or take the noise
    assert dot.locator(".verdict").inner_text() == "▲ slower"
    assert (
        page.locator(".compare tr", has_text="load @ 40").locator(".verdict").inner_text() == "= within noise"
    )
    assert "slower than A" in page.locator(".findings").inner_text()
    bars = [bar.bounding_box()["width"] for bar in dot.locator(".pair i").all()]
    assert bars[1] / bars[0] == pytest.approx(1.5, rel=0.05)


def test_lines_are_matched_and_those_of_one_side_marked(page):
    line = page.locator(".lines .row", has_text="s = tl.dot(q, k)")
    assert line.locator(".t").all_inner_texts()[0].startswith("36")
    assert line.locator(".delta").inner_text().startswith("+18")
    assert page.locator(".lines .gone").all_inner_texts()[0].strip().endswith("# the scores of this block")
    assert page.locator(".lines .fresh").all_inner_texts()[0].strip().endswith("# <b>scores</b>")
    assert page.locator("b", has_text="scores").count() == 0


def test_it_says_which_figure_it_compares(open_page, page, tmp_path, capsys):
    """Launches that recorded one program of sixteen, of which some are slow: means."""
    assert "time in a program, median of the launches" in page.locator("#kernels .head").first.inner_text()
    some = attention(launches=8)
    late = pl.col("launch") > 5
    some = replace(
        some,
        frame=some.intervals.with_columns(pl.col("stop_ns") + pl.when(late).then(90_000.0).otherwise(0.0)),
    )
    sampling = {"programs": {"stride": 16, "phase": 0, "count": 1}}
    some = replace(some, launches=[replace(launch, sampling=sampling) for launch in some.launches])
    some.save(tmp_path / "some.parquet")
    write_comparison(some, some, tmp_path / "some.html", ("a", "b"))
    shown = open_page(file=tmp_path / "some.html").locator("#kernels .head").first.inner_text()
    assert "time in a program, mean of the launches" in shown
    capsys.readouterr()
    assert main(["compare", *[str(tmp_path / "some.parquet")] * 2]) == 0
    assert "attention, time in a program, mean of the launches" in capsys.readouterr().out
