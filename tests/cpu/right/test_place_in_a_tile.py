"""What an element comes to does not depend on where in a tile it stands: in the vector loop, in its masked end, or in
an end of one element, for which LLVM makes code of its own."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import Buffer, kernel, launch

GATE = """
@triton.jit
def kernel(D, A, B, scale, n, N: tl.constexpr, END: tl.constexpr):
    i = tl.arange(0, N)
    mask = i < (END if END else n)
    d = tl.load(D + i, mask=mask, other=0)
    a = tl.load(A + i, mask=mask, other=0) * scale
    b = tl.load(B + i, mask=mask, other=0)
    s = tl.sigmoid(a)
    u = a * s
    tl.store(A + i, d * (u * (1 - s) + s) * b * scale, mask=mask)
    tl.store(B + i, d * u - b * s, mask=mask)
"""


@pytest.mark.parametrize("known", [True, False], ids=["end known", "end not known"])
@pytest.mark.parametrize("count", [17, 33, 65])
def test_sums_of_products(count, known):
    fn = kernel(GATE)
    rng = np.random.default_rng(0)
    for values in rng.standard_normal((40, 3)):
        given = [Buffer(np.full(count, value), "float32") for value in values]
        launch(fn, 1, *given, 1.3, count, N=1 << (count - 1).bit_length(), END=count if known else 0)
        for found in given[1:]:
            assert (found.values == found.values[0]).all()


ROUNDED = """
@triton.jit
def kernel(X, Y, Z, O, n, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    x, y, z = tl.load(X + i, mask=i < n), tl.load(Y + i, mask=i < n), tl.load(Z + i, mask=i < n)
    if KIND == 0:
        out = x * y + z
    elif KIND == 1:
        out = z + x * y
    elif KIND == 2:
        out = x * y - z
    else:
        out = z - x * y
    tl.store(O + i, out, mask=i < n)
"""


@pytest.mark.parametrize("kind", range(4))
def test_products_and_sums_round_once_or_twice(kind):
    """Once where the machine can, which is asked of it; twice where fusion is off."""
    rng = np.random.default_rng(kind)
    x, y, z = rng.standard_normal((3, 100)).astype(np.float32)
    sign_of_product, sign_of_z = ((1, 1), (1, 1), (1, -1), (-1, 1))[kind]
    wide = sign_of_product * (x.astype(np.float64) * y) + sign_of_z * z.astype(np.float64)
    narrow = np.float32(sign_of_product) * (x * y) + np.float32(sign_of_z) * z
    found = {}
    for fusion in (True, False):
        out = Buffer(np.zeros(100), "float32")
        given = [Buffer(v, "float32") for v in (x, y, z)]
        launch(kernel(ROUNDED), 1, *given, out, 100, N=128, KIND=kind, enable_fp_fusion=fusion)
        found[fusion] = out.values
    np.testing.assert_array_equal(found[False], narrow)
    fused = found[True]
    assert (fused == narrow).all() or (fused == wide.astype(np.float32)).mean() > 0.99
