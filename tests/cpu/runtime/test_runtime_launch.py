"""Launching through Triton: arguments of every kind, grids, and what is said when one is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import runtime_kernels as kernels
from triton.tools.tensor_descriptor import TensorDescriptor

import tileprobe
from tileprobe.targets.arguments import ArgumentError, to_bf16
from tileprobe.targets.cpu.kernel_errors import KernelAssertionError, KernelIndexError


def arrays(n=1000):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    return x, y, np.zeros(n, np.float32)


def test_add():
    x, y, out = arrays()
    kernels.add[(8,)](*map(tileprobe.array, (x, y, out)), 1000, BLOCK=128)
    np.testing.assert_array_equal(out, x + y)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x, y = torch.randn(1000), torch.randn(1000)
    out = torch.zeros(1000)
    kernels.add[(8,)](x, y, out, 1000, BLOCK=128)
    assert torch.equal(out, x + y)
    weight = torch.nn.Parameter(x)  # a subclass that requires grad
    kernels.add[(8,)](weight, y, out, 1000, BLOCK=128)
    assert torch.equal(out, x + y)


def test_any_object_with_an_address_and_a_dtype():
    class Buffer:
        dtype = "float32"

        def __init__(self, values):
            self.values = values

        def data_ptr(self):
            return self.values.ctypes.data

    x, y, out = arrays()
    kernels.add[(8,)](Buffer(x), Buffer(y), Buffer(out), 1000, BLOCK=128)
    np.testing.assert_array_equal(out, x + y)


def test_scalars_of_every_type():
    ints, floats = np.zeros(4, np.int64), np.zeros(4, np.float64)
    wrapped = tileprobe.array(ints), tileprobe.array(floats)
    for sign in (1, -1):
        values = (
            sign * 7,
            sign * 0.1,
            sign > 0,
            sign * 2**40,
            sign * 1e300,
            sign * 0.3,
            sign * 0.7,
            2**64 - 5,
        )
        kernels.scalars[(1,)](*wrapped, *values)
        assert list(ints) == [sign * 7, sign > 0, sign * 2**40, -5]
        bf16 = np.uint32(to_bf16(sign * 0.7) << 16).view(np.float32)
        assert list(floats) == [np.float32(sign * 0.1), sign * 1e300, np.float16(sign * 0.3), bf16]
    kernels.scalars[(1,)](*wrapped, 2**33, 1e300, False, 0, float("inf"), 1e9, float("nan"), 0)
    assert ints[0] == 2**33
    assert np.isinf(floats[:3]).all()
    assert np.isnan(floats[3])


def test_tuples_and_none():
    x, out = np.array([3.0, 5.0], np.float32), np.zeros(3, np.float32)
    first, second = tileprobe.array(x), tileprobe.array(x[1:])
    kernels.tuples[(1,)](((first, 2), (second, 4.5)), tileprobe.array(out), None)
    assert list(out) == [6.0, 22.5, 0.0]
    kernels.tuples[(1,)](((first, 1), (second, 4.5)), tileprobe.array(out), 9)
    assert list(out) == [3.0, 22.5, 9.0]


def test_host_tensor_descriptors():
    x, out = np.arange(40 * 24, dtype=np.float32).reshape(40, 24), np.zeros((40, 24), np.float32)
    source = TensorDescriptor.from_tensor(tileprobe.array(x), [16, 8])
    target = TensorDescriptor.from_tensor(tileprobe.array(out), [16, 8])
    kernels.descriptor_copy[(3, 3)](source, target, ROWS=16, COLUMNS=8)
    np.testing.assert_array_equal(out, x + 1)


@pytest.mark.parametrize("grid", [(1,), (5,), (3, 4), (2, 3, 4), (1, 1, 7)])
def test_grids(grid):
    shape = (*grid, 1, 1)[:3]
    out = np.full(int(np.prod(shape)), -1, np.int32)
    kernels.program_ids[grid](tileprobe.array(out))
    z, y, x = np.indices(shape[::-1])
    np.testing.assert_array_equal(out.reshape(shape[::-1]), x + 100 * y + 10000 * z)


def test_an_empty_grid_runs_nothing():
    x, y, out = arrays()
    kernels.add[(0,)](*map(tileprobe.array, (x, y, out)), 1000, BLOCK=128)
    kernels.add[(4, 0, 2)](*map(tileprobe.array, (x, y, out)), 1000, BLOCK=128)
    assert not out.any()


def test_a_grid_of_numpy_integers_or_a_function():
    x, y, out = arrays()
    kernels.add[(np.int64(8),)](*map(tileprobe.array, (x, y, out)), 1000, BLOCK=128)
    kernels.add[lambda meta: (-(-1000 // meta["BLOCK"]),)](*map(tileprobe.array, (x, y, out)), 1000, BLOCK=64)
    np.testing.assert_array_equal(out, x + y)


def test_gpu_options_are_ignored():
    x, y, out = arrays()
    kernels.add[(8,)](
        *map(tileprobe.array, (x, y, out)),
        1000,
        BLOCK=128,
        num_warps=8,
        num_stages=5,
        maxnreg=64,
        waves_per_eu=2,
    )
    np.testing.assert_array_equal(out, x + y)


def test_options_cover_the_gpu_backends():
    from triton.backends.amd.compiler import HIPOptions
    from triton.backends.nvidia.compiler import CUDAOptions

    from tileprobe.targets.cpu.options import CpuOptions

    theirs = {*CUDAOptions.__dataclass_fields__, *HIPOptions.__dataclass_fields__}
    assert theirs <= set(CpuOptions.__dataclass_fields__)


def test_an_unknown_keyword():
    x, y, out = arrays()
    with pytest.raises(KeyError, match="nonsense"):
        kernels.add[(8,)](*map(tileprobe.array, (x, y, out)), 1000, BLOCK=128, nonsense=1)


def line_of(text):
    lines = Path(kernels.__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def wrong(exception, *words):
    return pytest.raises(exception, match=".*".join(words))


def test_wrong_arguments_name_kernel_and_argument():
    x, y, out = map(tileprobe.array, arrays())
    with wrong(TypeError, "kernel add", "argument 'x'", "tileprobe.array"):
        kernels.add[(8,)](x.numpy(), y, out, 1000, BLOCK=128)
    with wrong(TypeError, "kernel add", "missing", "'n'"):
        kernels.add[(8,)](x, y, out, BLOCK=128)
    with wrong(TypeError, "kernel add", "argument 'n'", "str"):
        kernels.add[(8,)](x, y, out, "many", BLOCK=128)
    with wrong(TypeError, "kernel add", "too many"):
        kernels.add[(8,)](x, y, out, 1000, 128, 3)
    with wrong(TypeError, "kernel add", "grid", "integers"):
        kernels.add[(8.0,)](x, y, out, 1000, BLOCK=128)
    with wrong(TypeError, "kernel add", "argument 'n'", "NumPy int64"):
        kernels.add[(8,)](x, y, out, np.int64(1000), BLOCK=128)


def test_a_wrong_number_of_arguments_of_a_compiled_kernel():
    """Nothing binds these by name: the launcher itself counts them."""
    x, y, out = map(tileprobe.array, arrays())
    compiled = kernels.add[(8,)](x, y, out, 1000, BLOCK=128)
    with wrong(TypeError, "kernel add", "3 arguments", "'n', 'BLOCK' missing"):
        compiled[(8, 1, 1)](x, y, out)
    with wrong(TypeError, "kernel add", "1 arguments", "'y'"):
        compiled[(8, 1, 1)](x)
    with wrong(TypeError, "kernel add", "6 arguments", "takes 5"):
        compiled[(8, 1, 1)](x, y, out, 1000, 128, 3)


def test_options_that_mean_nothing_here_compile_nothing_anew(tmp_path):
    """What autotuning tries: warps and stages, of one tile."""
    from triton import knobs

    compiled = []
    listener = lambda *, src, metadata, metadata_group, times, cache_hit: compiled.append(cache_hit)
    x, y, out = map(tileprobe.array, arrays())
    with knobs.compilation.scope(), knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        knobs.compilation.listener = listener
        for warps in (1, 2, 4, 8):
            for stages in (1, 2, 3):
                kernels.add[(16,)](x, y, out, 1000, BLOCK=64, num_warps=warps, num_stages=stages)
    assert compiled.count(False) <= 1
    assert len(compiled) > 1


def test_wrong_tensors_name_kernel_and_argument():
    torch = pytest.importorskip("torch")
    x, y, out = (torch.zeros(1000) for _ in range(3))
    with wrong(ArgumentError, "kernel add", "argument 'y'", "'meta'"):
        kernels.add[(8,)](x, y.to("meta"), out, 1000, BLOCK=128)
    with wrong(ArgumentError, "kernel add", "argument 'y'", "complex64"):
        kernels.add[(8,)](x, y.to(torch.complex64), out, 1000, BLOCK=128)


def test_a_failed_assertion_names_line_and_program():
    x = np.zeros(64, np.int32)
    x[40] = 9
    with pytest.raises(KernelAssertionError) as caught:
        kernels.checked[(4,)](tileprobe.array(x), 5, BLOCK=16, debug=True)
    message = str(caught.value)
    assert "kernel checked" in message
    assert "value above the limit" in message
    assert "program (2, 0, 0)" in message
    line = line_of("value above the limit")
    assert f"runtime_kernels.py:{line}" in message
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, tileprobe.TileProbeError)
    x[:] = 0
    kernels.checked[(4,)](tileprobe.array(x), 5, BLOCK=16, debug=True)  # nothing of it stays
    assert (x == 1).all()


def test_assertions_cost_nothing_without_debug():
    x = np.full(64, 9, np.int32)
    kernels.checked[(4,)](tileprobe.array(x), 5, BLOCK=16)
    assert (x == 10).all()


def test_printing(capfd):
    print("before")
    kernels.printing[(3,)](tileprobe.array(np.array([11, 22, 33], np.int32)))
    print("after")
    lines = capfd.readouterr().out.split()
    assert {"11", "22", "33"} <= {word for line in lines for word in line.split()}


def test_bounds_are_checked_on_demand():
    x, out = np.arange(100, dtype=np.float32), np.zeros(64, np.float32)
    wrapped = tileprobe.array(x), tileprobe.array(out)
    with tileprobe.use("cpu", check_bounds=True):
        kernels.shifted[(1,)](*wrapped, 36, BLOCK=64)
        np.testing.assert_array_equal(out, x[36:])
        for shift, index in ((37, 100), (-3, -3), (150, 150)):
            with pytest.raises(KernelIndexError) as caught:
                kernels.shifted[(1,)](*wrapped, shift, BLOCK=64)
            message = str(caught.value)
            assert "kernel shifted" in message
            assert f"out-of-bounds load of x: element {index} of 100" in message
            assert f"runtime_kernels.py:{line_of('+ shift)')}" in message
    kernels.shifted[(1,)](*wrapped, 10, BLOCK=64)
    np.testing.assert_array_equal(out, x[10:74])
