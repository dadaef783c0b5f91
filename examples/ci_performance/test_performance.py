"""What the kernels take on an A100 and an H100. No GPU is needed: they run on simulated ones."""

import numpy as np
import pytest
from kernels import product, softmax

MACHINES = ["sim:a100", "sim:h100"]


@pytest.mark.parametrize("machine", MACHINES)
def test_softmax(tileprobe, machine):
    x = np.random.default_rng(0).standard_normal((64, 500), dtype=np.float32)
    out = np.empty_like(x)
    result = tileprobe.run(softmax, (64,), x, out, 500, on=machine, BLOCK=512)
    raised = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, raised / raised.sum(1, keepdims=True), rtol=1e-5)
    assert not result.races
    assert result.spill_bytes == result.conflicts == 0
    assert result.counters["dram_bytes_read"] == x.nbytes  # every value once
    tileprobe.check(result)


@pytest.mark.parametrize("machine", MACHINES)
def test_product(tileprobe, machine):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 128)).astype(np.float16) for _ in range(2))
    c = np.zeros_like(a)

    def grid(chosen):
        return 128 // chosen["TILE"], 128 // chosen["TILE"]

    result = tileprobe.run(product, grid, a, b, c, 128, on=machine)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=0.1, rtol=0.01)
    assert not result.races
    assert result.spill_bytes == 0
    assert result.occupancy >= 0.25, result.occupancy_limiter
    tileprobe.check(result, tolerance={"cycles": 0.01})  # one in a hundred is nobody's concern
