"""Programs of several CTAs, executed as machine code by the simulated GPU: each CTA has streams of its own."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.session.session import Session

TRIPS, PROGRAMS, SIDE = 5, 3, 64


@triton.jit
def product(a, b, out, count, SIDE: tl.constexpr):
    i = tl.arange(0, SIDE)
    at = i[:, None] * SIDE + i[None, :]
    total = tl.zeros([SIDE, SIDE], tl.float32)
    for step in range(count):
        total = tl.dot(tl.load(a + step * SIDE * SIDE + at), tl.load(b + step * SIDE * SIDE + at), total)
    tl.store(out + tl.program_id(0) * SIDE * SIDE + at, total)


def launched(ctas):
    rng = np.random.default_rng(0)
    a, b = (tileprobe.array(rng.standard_normal((TRIPS, SIDE, SIDE)).astype(np.float16)) for _ in range(2))
    out = tileprobe.array(np.zeros((PROGRAMS, SIDE, SIDE), np.float32))
    product[(PROGRAMS,)](a, b, out, TRIPS, SIDE=SIDE, num_ctas=ctas)
    return np.array(out.numpy()).view(np.int32)


@pytest.mark.parametrize(
    ("ctas", "programs", "records", "in_a_cta"),
    [
        (2, "all", {}, 1),
        (4, "1,2", {"granularity": "warp"}, 4),
        (2, "all", {"strategy": "flush", "shared_words": 48, "granularity": "warp_group"}, 1),
    ],
)
def test_every_cta_records_every_iteration(ctas, programs, records, in_a_cta):
    with tileprobe.use("sim:h100"):
        plain = launched(ctas)
        with Session(
            min_cost=0.0, programs=programs, alternate=False, capacity=8, records=records
        ) as session:
            assert np.array_equal(launched(ctas), plain)
    assert not session.problems
    trace = session.trace
    (kernel,) = trace.kernels
    names = trace.stream_names(kernel.id)
    assert len(names) == ctas * in_a_cta
    assert [name.split(" / ")[0] for name in names[::in_a_cta]] == [f"CTA {n}" for n in range(ctas)]
    (loop,) = kernel.layout["loops"]
    assert (0 < loop.get("window", 0) < TRIPS) == ("strategy" in records)
    (region,) = [region.id for region in trace.regions if region.kind == "iteration"]
    found = trace.intervals.filter(trace.intervals["region"] == region).sort("start")
    wanted = range(PROGRAMS) if programs == "all" else (1, 2)
    assert {key: one["iteration"].to_list() for key, one in found.group_by("program", "stream")} == {
        (program, stream): list(range(TRIPS)) for program in wanted for stream in range(ctas * in_a_cta)
    }
