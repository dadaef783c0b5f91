"""What the page has of a simulated GPU: its machine code with source lines, and a roofline of what it counted."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.tools.roofline import roofline
from tileprobe.trace import Kernel
from tileprobe.views.html.levels import levels
from tileprobe.views.html.listing import Places


@triton.jit
def product(a, b, c, N: tl.constexpr):
    rows, cols = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    both = tl.dot(tl.load(a + rows * N + cols), tl.load(b + rows * N + cols))
    tl.store(c + rows * N + cols, both)


@pytest.mark.parametrize("probes", ["none", "free"])
def test_machine_code_lights_up_with_its_source(probes):
    a, b, c = (tileprobe.array(np.ones((64, 64), np.float16)) for _ in range(3))
    with (
        tileprobe.use("sim:a100", timed=True, probes=probes),
        tileprobe.profile(programs="all") as session,
    ):
        product[(1,)](a, b, c, N=64)
    trace = session.trace
    kernel: Kernel = trace.kernels[0]
    assert "HMMA.16816" in kernel.ir["sass"]
    places = Places()
    dot = kernel.first_line + 3
    number = places.add((kernel.file, dot))
    (shown,) = (level for level in levels(kernel, places) if level["level"] == "sass")
    assert shown["title"] == "SASS"
    lit = [line for line, links in zip(shown["lines"], shown["links"]) if number in links]
    assert any("HMMA" in line for line in lit)
    assert not any("STG" in line for line in lit)
    if probes == "none":
        found = roofline(trace, kernel)
        assert found is not None
        assert found.roofs is not None
        (point,) = found.points
        assert point.flops == pytest.approx(2 * 64**3, rel=0.01)
        assert found.roofs.unit == "chip"
