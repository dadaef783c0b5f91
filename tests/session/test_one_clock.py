"""A machine's rate is asked once for a trace: it is learnt, and each answer differs a little from the one before."""

import numpy as np
import polars as pl
import triton
import triton.language as tl

import tileprobe
from tileprobe.session.making import Making


class Learning:
    name, bits = "tsc", 64

    def __init__(self):
        self.rate = 2e9

    def hz(self):
        self.rate += 100.0
        return self.rate


def test_a_clock_has_one_rate_in_a_trace():
    making, source = Making(), Learning()
    assert making.clock(source) == making.clock(source)
    assert Making().clock(source) != making.clock(source)  # the next trace knows better


@triton.jit
def one(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + 1.0)


@triton.jit
def two(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2.0)


def test_kernels_in_turns_do_not_overlap():
    x = tileprobe.array(np.ones(4096, np.float32))
    with tileprobe.profile(programs="all", alternate=False) as session:
        for _ in range(5):
            one[(4,)](x, BLOCK=1024)
            two[(4,)](x, BLOCK=1024)
    trace = session.trace
    assert len({kernel.clock for kernel in trace.kernels}) == 1 and len(trace.kernels) == 2
    ends = pl.col("start_ns").min(), pl.col("stop_ns").max()
    spans = trace.scan().group_by("launch").agg(ends).sort("start_ns").collect()
    assert (spans["start_ns"][1:] >= spans["stop_ns"][:-1]).all()
