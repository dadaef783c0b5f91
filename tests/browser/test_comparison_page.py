"""Two traces side by side, in a browser."""

from dataclasses import replace

import pytest
from made import attention

from tileprobe.cli import main


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
