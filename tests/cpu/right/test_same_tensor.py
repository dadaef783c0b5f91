"""One tensor given as two arguments: accesses through both keep their order, whatever each kernel assumes alone."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch

SHIFT = """
@triton.jit
def kernel(X, O, n, D: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(O + D + i, tl.load(X + 2 + i, mask=i < n), mask=i < n)
"""


@pytest.mark.parametrize("first", [True, False], ids=["at once", "after two tensors"])
@pytest.mark.parametrize("distance", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 100, 128])
def test_shift_in_place(distance, count, first):
    fn = kernel(SHIFT)
    x = np.arange(200, dtype=np.float32)
    if not first:
        other = Buffer(np.zeros(200), "float32")
        launch(fn, 1, Buffer(x, "float32"), other, count, D=distance, N=128)
        assert (other.values[distance : distance + count] == x[2 : 2 + count]).all()
    found = Buffer(x, "float32")
    launch(fn, 1, found, found, count, D=distance, N=128)
    want = x.copy()
    want[distance : distance + count] = x[2 : 2 + count]
    np.testing.assert_array_equal(found.values, want)


def test_elementwise_in_place_stays_one_stage():
    """At the very same places nothing has to be kept: the common case costs nothing."""
    source = """
@triton.jit
def kernel(X, Y, O, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(O + i, tl.load(X + i, mask=i < n) * 2 + tl.load(Y + i, mask=i < n), mask=i < n)
"""
    from tileprobe.targets.cpu import launch as launching

    made = []
    original = launching.Launcher._variant

    def remember(self, same):
        made.append((same, original(self, same)))
        return made[-1][1]

    launching.Launcher._variant = remember
    try:
        x, y = Buffer(np.arange(64), "float32"), Buffer(np.ones(64), "float32")
        launch(kernel(source), 1, x, y, x, 60, N=64)
    finally:
        launching.Launcher._variant = original
    want = np.where(np.arange(64) < 60, 2.0 * np.arange(64) + 1, np.arange(64))
    np.testing.assert_array_equal(x.values, want)
    ((same, compiled),) = made
    assert same == "X=O"
    assert compiled.asm["tile"].count("tile.nest") == 1
    assert "tile.alloc" not in compiled.asm["tile"]


def test_load_kept_across_a_store_to_the_same_tensor():
    source = """
@triton.jit
def kernel(A, B, O, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(A + i)
    tl.store(B + N - 1 - i, a)
    tl.store(O + i, tl.load(A + i) + a)
"""
    values = np.arange(64, dtype=np.int32)
    a, out = Buffer(values, "int32"), Buffer.full((64,), "int32")
    launch(kernel(source), 1, a, a, out, N=64)
    np.testing.assert_array_equal(out.values, values[::-1] + values)
    three = Buffer(values, "int32")  # all three the same
    launch(kernel(source), 1, three, three, three, N=64)
    np.testing.assert_array_equal(three.values, values[::-1] + values)


IN_TUPLES = """
@triton.jit
def kernel(pair, O, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(pair[1] + 1 + i, tl.load(pair[0] + i, mask=i < n), mask=i < n)
    tl.store(O + i, tl.load(pair[0] + i, mask=i < n), mask=i < n)
"""


@pytest.mark.parametrize("third", [False, True], ids=["two in the tuple", "all three"])
def test_the_same_tensor_twice_in_a_tuple(third):
    fn = kernel(IN_TUPLES)
    x = np.arange(200, dtype=np.float32)
    apart = [Buffer(v, "float32") for v in (x, np.zeros(200), np.zeros(200))]
    launch(fn, 1, (apart[0], apart[1]), apart[2], 128, N=128)
    np.testing.assert_array_equal(apart[1].values[1:129], x[:128])
    found, out = Buffer(x, "float32"), Buffer(np.zeros(200), "float32")
    launch(fn, 1, (found, found), found if third else out, 128, N=128)
    want = x.copy()
    want[1:129] = x[:128]
    np.testing.assert_array_equal(found.values if third else out.values[:128], want if third else want[:128])


BY_DESCRIPTORS = """
@triton.jit
def kernel(source, first, second):
    value = source.load([0, 0])
    first.store([0, 0], value)
    second.store([1, 0], value + 1000)
"""


@pytest.mark.parametrize("same", [False, True], ids=["three tensors", "written twice"])
def test_the_same_tensor_behind_two_descriptors(same):
    from triton.tools.tensor_descriptor import TensorDescriptor

    import tileprobe

    x = np.arange(17 * 16, dtype=np.float32).reshape(17, 16)
    first, second = np.zeros_like(x), np.zeros_like(x)
    second = first if same else second
    blocks = [TensorDescriptor.from_tensor(tileprobe.array(v), [16, 16]) for v in (x, first, second)]
    kernel(BY_DESCRIPTORS)[(1,)](*blocks)
    np.testing.assert_array_equal(second[1:], x[:16] + 1000)
    np.testing.assert_array_equal(first[: 1 if same else 16], x[: 1 if same else 16])
