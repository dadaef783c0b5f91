"""The harness itself: rounding into small floats, decoding, and that a wrong value is seen."""

import numpy as np
import pytest
from cpu_harness import FP8, Buffer, codes, mismatch


@pytest.mark.parametrize("dtype", [*FP8, "float16", "bfloat16"])
def test_codes_survive_a_round_trip(dtype):
    values = codes(dtype)
    keep = ~np.isnan(values)
    assert mismatch(Buffer(values[keep], dtype).values, values[keep], dtype) is None


def test_rounding_matches_torch():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(4000) * np.exp2(
        np.random.default_rng(1).integers(-12, 8, 4000)
    )
    for ours, theirs in (
        ("bfloat16", "bfloat16"),
        ("float8e4nv", "float8_e4m3fn"),
        ("float8e5", "float8_e5m2"),
    ):
        x32 = x.astype(np.float32)
        x32 = x32[np.abs(x32) < 440]
        want = torch.from_numpy(x32).to(getattr(torch, theirs)).to(torch.float64).numpy()
        assert (Buffer(x32, ours).values == want).all()


def test_a_wrong_value_is_seen():
    want = np.array([1.0, -0.0, np.nan])
    assert mismatch(want.copy(), want, "float32") is None
    assert mismatch(np.array([1.0, 0.0, np.nan]), want, "float32") is not None
    assert mismatch(np.array([1.0, -0.0, 0.0]), want, "float32") is not None
    assert mismatch(np.array([1.0 + 2e-7, -0.0, np.nan]), want, "float32") is not None
    assert mismatch(np.array([1.0 + 2e-7, -0.0, np.nan]), want, "float32", ulps=2) is None
    assert mismatch(np.array([3]), np.array([4]), "int32") is not None
