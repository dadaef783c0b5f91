"""cuBLAS, as Triton's package calls it: products of fp8 are those of the simulated tensor cores."""

import pytest

import tileprobe
from tileprobe.cuda_map.cublas import CublasLt
from tileprobe.errors import UnsupportedError

torch = pytest.importorskip("torch")


def product(rows=40, columns=24, depth=80):
    """Of a row that begins with 448 and holds ones, the other rows are ones."""
    a, b = torch.ones(rows, depth), torch.ones(columns, depth)
    a[0, 0] = b[0, 0] = 448.0
    out = torch.zeros(rows, columns)
    CublasLt(None).matmul(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), out)
    return out


def test_sums_of_fp8_are_those_of_tensor_cores():
    """200,704 and 31 ones are 200,735; of sums with 13 bits below the largest exponent, 2 ** 17, ones fall off."""
    with tileprobe.use("sim:h100"):
        out = product()
    assert out[0, 0] == 448 * 448
    assert out[0, 1] == 448 + 79 and out[39, 23] == 80


def test_on_the_cpu_they_are_single_precision():
    with tileprobe.use("cpu"):
        assert product()[0, 0] == 448 * 448 + 79


def test_an_a100_has_none():
    with (
        tileprobe.use("sim:a100"),
        pytest.raises(UnsupportedError, match="from sm_89 on, and this GPU is sm_80"),
    ):
        product()
