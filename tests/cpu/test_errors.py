"""What a user gets wrong: arguments, kernels that cannot run here, accesses out of bounds, assertions."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import INTERPRETED, Buffer

import tileprobe

pytestmark = pytest.mark.skipif(INTERPRETED, reason="the errors of the CPU target")


def line_of(text):
    """The number of the one line of this file that ends with a marker."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {text}"))


def array(n, dtype=np.float32):
    return tileprobe.array(np.zeros(n, dtype=dtype))


@triton.jit
def copy_kernel(X, OUT, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + i, mask=i < n)  # the load
    tl.store(OUT + i, x, mask=i < n)  # the store


@triton.jit
def asm_kernel(OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.inline_asm_elementwise("mov.u32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1)  # asm
    tl.store(OUT + i, y)


def test_inline_assembly_is_refused():
    with pytest.raises(Exception, match="asm_kernel") as caught:
        asm_kernel[(1,)](array(16, np.int32), N=16)
    text = str(caught.value)
    assert f"{Path(__file__).name}:{line_of('asm')}" in text
    assert "assembly" in text or "asm" in text


def test_a_numpy_array_is_refused_with_advice():
    with pytest.raises(Exception, match=r"tileprobe\.array|ndarray"):
        copy_kernel[(1,)](np.zeros(4), array(4), 4, N=4)


def test_a_missing_argument():
    with pytest.raises(TypeError):
        copy_kernel[(1,)](array(4), array(4), N=4)


def test_an_unknown_keyword():
    with pytest.raises(KeyError):
        copy_kernel[(1,)](array(4), array(4), 4, N=4, num_wraps=4)


def test_a_tensor_on_another_device():
    torch = pytest.importorskip("torch")
    x = torch.empty(16, device="meta")
    with pytest.raises(Exception, match=r"meta|device|X"):
        copy_kernel[(1,)](x, torch.empty(16), 16, N=16)


def test_options_of_gpus_are_accepted():
    x, out = tileprobe.array(np.arange(8, dtype=np.float32)), array(8)
    copy_kernel[(1,)](x, out, 8, N=8, num_warps=8, num_stages=4, num_ctas=1, maxnreg=128)
    assert (out.numpy() == np.arange(8)).all()


@pytest.mark.parametrize(
    ("n_x", "n_out", "marker", "name"), [(90, 128, "the load", "X"), (128, 77, "the store", "OUT")]
)
def test_bounds(n_x, n_out, marker, name):
    with tileprobe.use("cpu", check_bounds=True):
        copy_kernel[(2,)](array(128), array(128), 128, N=64)
        with pytest.raises(IndexError) as caught:
            copy_kernel[(2,)](array(n_x), array(n_out), 128, N=64)
    text = str(caught.value)
    assert "copy_kernel" in text
    assert f"{Path(__file__).name}:{line_of(marker)}" in text
    assert f"of {name}: element {min(n_x, n_out)} " in text
    assert f"of {min(n_x, n_out)} " in text


def test_bounds_before_the_start():
    x, out = np.zeros(200, np.float32), array(64)
    view = tileprobe.array(x[100:])
    with tileprobe.use("cpu", check_bounds=True), pytest.raises(IndexError):
        shifted_kernel[(1,)](view, out, -300, N=64)


@triton.jit
def shifted_kernel(X, OUT, shift, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.load(X + i + shift))


def test_bounds_of_atomics():
    with tileprobe.use("cpu", check_bounds=True), pytest.raises(IndexError):
        atomic_kernel[(1,)](array(8, np.int32), N=16)


@triton.jit
def atomic_kernel(X, N: tl.constexpr):
    tl.atomic_add(X + tl.arange(0, N), 1)


def test_bounds_leave_unknown_tensors_alone():
    """Addresses that come out of a table belong to tensors the launch never saw."""
    from examples.kernels import grouped_gemm

    with tileprobe.use("cpu", check_bounds=True):
        grouped_gemm.check(**grouped_gemm.CASES[1])


@triton.jit
def assert_kernel(X, limit, N: tl.constexpr):
    x = tl.load(X + tl.program_id(0) * N + tl.arange(0, N))
    tl.device_assert(x < limit, "too large")  # the assertion


def test_device_assert():
    x = tileprobe.array(np.arange(64, dtype=np.int32))
    assert_kernel[(4,)](x, 64, N=16, debug=True)
    with pytest.raises(AssertionError) as caught:
        assert_kernel[(4,)](x, 40, N=16, debug=True)
    text = str(caught.value)
    assert "too large" in text
    assert "assert_kernel" in text
    assert f"{Path(__file__).name}:{line_of('the assertion')}" in text
    assert_kernel[(4,)](x, 40, N=16)  # without debug it is not there


def test_the_target_works_after_an_error():
    x = tileprobe.array(np.arange(64, dtype=np.int32))
    for _ in range(3):
        with pytest.raises(AssertionError):
            assert_kernel[(4,)](x, 40, N=16, debug=True)
        out = array(64, np.int32)
        copy_kernel[(1,)](x, out, 64, N=64)
        assert (out.numpy() == x.numpy()).all()


PRINTING = """
import numpy as np
import tileprobe
from cpu_harness import kernel

fn = kernel('''
@triton.jit
def kernel(X, f, N: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))
    tl.device_print("value", x)
    tl.device_print("scalar", f, tl.program_id(0))
    tl.static_print("static", N)
''')
fn[(1,)](tileprobe.array(np.arange(4, dtype=np.int32) * 11), 2.5, N=4)
"""


def test_device_print():
    done = subprocess.run(
        [sys.executable, "-c", PRINTING],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "value" in line]
    assert len(lines) == 4
    assert all(line.startswith("pid (0, 0, 0) idx (") for line in lines)
    assert [int(line.split(":")[-1]) for line in lines] == [0, 11, 22, 33]
    assert any("scalar" in line and "2.5" in line for line in done.stdout.splitlines())


def test_an_empty_grid_runs_nothing():
    out = array(8)
    copy_kernel[(0,)](array(8), out, 8, N=8)
    assert (out.numpy() == 0).all()


def test_a_kernel_that_does_not_type_check():
    with pytest.raises(triton.CompilationError):
        bad_kernel[(1,)](array(8), N=8)


@triton.jit
def bad_kernel(X, N: tl.constexpr):
    tl.store(X + tl.arange(0, N), tl.arange(0, 2 * N))


def test_buffers_of_any_kind_are_taken():
    x, out = Buffer(np.arange(8), "bfloat16"), Buffer.full(8, "bfloat16")
    copy_kernel[(1,)](x, out, 8, N=8)
    assert (out.values == np.arange(8)).all()
