"""From `tileprobe.use("sim:...")` to values in memory: the whole way, once for each machine."""

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES

import tileprobe


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@pytest.mark.parametrize("machine", MACHINES)
def test_vectors_are_added(machine):
    n = 3001
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, n), dtype=np.float32)
    out = np.full(n + 7, -1, np.float32)
    with tileprobe.use(machine):
        a, b, c = (tileprobe.array(v) for v in (x, y, out))
        add[(triton.cdiv(n, 1024),)](a, b, c, n, 1024)
    result = np.asarray(c.numpy())
    np.testing.assert_array_equal(result[:n], x + y)
    assert (result[n:] == -1).all()
