"""tileprobe.array: what Triton and a user see of a NumPy array."""

from __future__ import annotations

import numpy as np
import pytest

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu import bounds, narrow_floats
from tileprobe.targets.cpu.tensors import byte_bounds, dtype

PLAIN = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
PLAIN += ["float16", "float32", "float64"]


@pytest.mark.parametrize("name", PLAIN)
def test_wraps_without_copying(name):
    values = np.zeros((4, 6), dtype=name)
    wrapped = tileprobe.array(values)
    assert wrapped.numpy() is values
    assert wrapped.data_ptr() == values.ctypes.data
    assert (wrapped.shape, wrapped.stride(), wrapped.stride(0)) == ((4, 6), (6, 1), 6)
    assert wrapped.element_size() == values.itemsize
    assert str(wrapped.dtype).endswith(f".{name}")


@pytest.mark.parametrize("view", ["x[1:, ::2]", "x.T", "x[::-1]", "x[2:3]", "np.broadcast_to(x[0], (5, 8))"])
def test_views_keep_their_strides(view):
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    part = eval(view, {"x": x, "np": np})
    wrapped = tileprobe.array(part)
    assert wrapped.data_ptr() == part.__array_interface__["data"][0]
    assert wrapped.stride() == tuple(s // 4 for s in part.strides)
    assert byte_bounds(part) == np.lib.array_utils.byte_bounds(part)


def test_triton_knows_every_dtype():
    from triton._utils import canonicalize_dtype

    names = {"bool": "u1", "int32": "i32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16"}
    names |= {"float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8e4b15": "fp8e4b15"}
    names |= {"float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16"}
    for name, canonical in names.items():
        assert canonicalize_dtype(dtype(name)) == canonical
        assert dtype(canonical if canonical != "u1" else "i1") is dtype(name)


@pytest.mark.parametrize("name", list(narrow_floats.FORMATS))
def test_narrow_floats_round_trip(name):
    count = 2**16 if name == "bfloat16" else 2**8
    codes = np.arange(count).astype(np.uint16 if name == "bfloat16" else np.uint8)
    values = narrow_floats.decode(codes, name)
    back = narrow_floats.encode(values, name)
    keep = ~np.isnan(values)
    if name == "float8e4b15":
        keep &= np.abs(values) <= 1.75  # the largest code is never written
    np.testing.assert_array_equal(back[keep], codes[keep])
    assert np.isnan(narrow_floats.decode(back[np.isnan(values)], name)).all()


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
)
def test_narrow_floats_agree_with_torch(name):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, name)
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.standard_normal(2000) * 10.0 ** rng.integers(-6, 3, 2000), [0.0, -0.0]])
    values = np.clip(values, -200, 200).astype(np.float32)
    expected = torch.from_numpy(values).to(kind).float().numpy()
    wrapped = tileprobe.array(values, dtype=name)
    np.testing.assert_array_equal(wrapped.numpy(), expected)


def test_bits_are_taken_as_they_are():
    bits = np.array([0x3F80, 0xC000], np.uint16)
    wrapped = tileprobe.array(bits, dtype="bfloat16")
    assert wrapped.raw is bits
    np.testing.assert_array_equal(wrapped.numpy(), [1.0, -2.0])


def test_autotuning_needs_these():
    wrapped = tileprobe.array(np.arange(4.0))
    kept = wrapped.clone()
    assert not wrapped.zero_().numpy().any()
    wrapped.copy_(kept)
    np.testing.assert_array_equal(wrapped.numpy(), np.arange(4.0))
    assert np.asarray(wrapped).sum() == 6


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (np.zeros(3, np.complex64), None, "no dtype complex64"),
        (np.array(["a"]), None, "no dtype"),
        (np.zeros(3), "float128", "no dtype 'float128'"),
        (np.zeros(3, ">f4"), None, "byte order"),
        (np.zeros(3, [("a", "i1"), ("b", "<f4")])["b"], None, "no multiples of 4"),
    ],
)
def test_what_cannot_be_wrapped(data, kind, message):
    with pytest.raises(TileProbeError, match=message):
        tileprobe.array(data, kind)


def test_a_tensor_needs_no_wrapping():
    torch = pytest.importorskip("torch")
    with pytest.raises(TileProbeError, match="as it is"):
        tileprobe.array(torch.zeros(3))


def test_bounds_are_those_of_the_storage():
    storage = np.zeros((8, 8), np.float32)
    wrapped = tileprobe.array(storage[2:, ::2])
    begin = storage.ctypes.data
    (extent,) = bounds.extents(["x"], [wrapped]) or []
    assert (extent.begin, extent.end, extent.first) == (begin, begin + 256, begin + 64)
    table = bounds.table([extent, extent])
    assert list(table) == [1, begin, begin + 256]


def test_bounds_of_an_unknown_object():
    class Opaque:
        dtype = "float32"

        def data_ptr(self):
            return 4096

    assert bounds.extents(["x"], [Opaque()]) is None
    assert bounds.extents(["n", "x"], [3, None]) == []
