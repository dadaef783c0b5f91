"""Planted races between the programs of a cluster on `sim:h100`: both lines are named; without the bug nothing is."""

import numpy as np
import pytest
import triton
import triton.language as tl
from planting import line_of, named, without

import tileprobe
from tileprobe.targets.simgpu.race_report import RaceFault

N = 1024
BARRIER = r"barrier\.cluster"


@pytest.fixture(autouse=True)
def machine():
    with tileprobe.use("sim:h100", check="all"):
        yield


@triton.jit
def twice(x, out, N: tl.constexpr):
    """Two sums whose parts lie in the programs of a cluster, and stand in the same shared memory one after another."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    first = tl.sum(v, 0)  # first sum
    second = tl.sum(v * first, 0)  # second sum
    tl.store(out + i, v + second)


def launched(cluster=2, warps=4):
    values = np.random.default_rng(0).integers(0, 9, N).astype(np.float32)
    out = tileprobe.array(np.zeros_like(values))
    made = twice[(1,)](tileprobe.array(values), out, N, num_ctas=cluster, num_warps=warps)
    np.testing.assert_array_equal(out.numpy(), values + values.sum() ** 2)
    return made.asm["ptx"]


@pytest.mark.parametrize(("cluster", "warps"), [(2, 4), (4, 8), (8, 1)])
def test_sums_across_a_cluster_are_followed_and_clean(cluster, warps, capfd):
    ptx = launched(cluster, warps)
    assert ptx.count("barrier.cluster.arrive") >= 3 and "mapa.shared::cluster" in ptx
    assert "not looked for" not in capfd.readouterr().err


def test_no_barrier_at_all():
    with without(BARRIER), pytest.raises(RaceFault) as said:
        launched()
    text = str(said.value)
    assert named(said.value, __file__, "first sum", "second sum")
    assert "program 1 of the cluster" in text and "number 0 of its cluster" in text


def test_what_others_still_read_is_overwritten():
    """Only the barrier between the first sum and the second one is missing."""
    with without(BARRIER, keep=2), pytest.raises(RaceFault) as said:
        launched()
    assert named(said.value, __file__, "first sum", "second sum")
    assert "overwrites it" in str(said.value)


def test_a_sum_is_read_before_others_have_written_it():
    with without(BARRIER, keep=4), pytest.raises(RaceFault) as said:
        launched()
    assert named(said.value, __file__, "second sum")
    assert f"{line_of(__file__, 'first sum')} " not in str(said.value)


def test_a_program_ends_while_others_read_its_shared_memory():
    """The barrier before the exit is missing."""
    with without(BARRIER, keep=6), pytest.raises(RaceFault, match="found 1 fault\n") as said:
        launched()
    assert named(said.value, __file__, "second sum")
    assert "ends the program that it belongs to" in str(said.value)


def test_more_warps_than_can_be_followed_are_said(capfd):
    launched(8, 8)
    assert (
        "kernel twice: races are not looked for: clusters of 8 programs have 64 warps"
        in capfd.readouterr().err
    )
