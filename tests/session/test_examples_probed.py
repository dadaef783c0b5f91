"""The example kernels with every stage, loop and iteration probed: right results, nothing lost, times that nest."""

import importlib

import polars as pl
import pytest
from examples.kernels import NAMES

import tileprobe


@pytest.mark.parametrize("name", NAMES)
def test_probed_kernels_compute_the_same(name):
    module = importlib.import_module(f"examples.kernels.{name}")
    with tileprobe.profile(min_cost=0.0, alternate=False, programs="all") as session:
        module.check(**module.CASES[0])
    assert not session.problems
    assert {kernel.name for kernel in session.trace.kernels} == set(session.seen)
    assert session.trace.losses.kept > 0
    assert session.trace.losses.lost == 0
    frame = session.trace.intervals
    assert (frame["stop"] >= frame["start"]).all()
    for kernel in session.trace.kernels:
        root = next(r.id for r in session.trace.kernel_regions(kernel.id) if r.parent is None)
        mine = [r.id for r in session.trace.kernel_regions(kernel.id)]
        inside = frame.filter(pl.col("region").is_in(mine))
        whole = inside.filter(region=root).select("launch", "program", first="start", last="stop")
        joined = inside.join(whole, on=["launch", "program"])
        assert joined.height == inside.height
        assert joined.filter(
            (pl.col("start") < pl.col("first")) | (pl.col("stop") > pl.col("last"))
        ).is_empty()
