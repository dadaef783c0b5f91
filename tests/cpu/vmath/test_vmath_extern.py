"""libdevice on the CPU: every symbol of Triton's libdevice is there, compiles, and has the right type."""

from __future__ import annotations

import inspect

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np
import pytest

from tileprobe.errors import UnsupportedError
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.codegen.types import register_type
from tileprobe.targets.cpu.vmath.harness import compile_map

TYPES = {"int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64", "fp32": "f32", "fp64": "f64"}


class Captured(Exception):
    """Carries what a libdevice function hands to Triton's extern_elementwise."""


def overloads() -> list[tuple[str, tuple[str, ...], str]]:
    """(symbol, argument types, result type) of every function of libdevice, taken from Triton itself."""
    from triton.language.extra.cuda import libdevice

    def capture(_library, _path, _args, table, **_options):
        raise Captured(table)

    out = []
    original = libdevice.core.extern_elementwise
    libdevice.core.extern_elementwise = capture
    try:
        for name in vars(libdevice):
            function = getattr(libdevice, name)
            if name.startswith("_") or not callable(function):
                continue
            body = inspect.unwrap(function)
            count = sum(
                p.default is inspect.Parameter.empty for p in inspect.signature(body).parameters.values()
            )
            with pytest.raises(Captured) as caught:
                body(*[None] * count, _semantic=object())
            for arguments, (symbol, result) in caught.value.args[0].items():
                out.append((symbol, tuple(TYPES[a.name] for a in arguments), TYPES[result.name]))
    finally:
        libdevice.core.extern_elementwise = original
    return out


def test_every_symbol_compiles_with_its_type() -> None:
    table = overloads()
    assert len(table) > 300
    for lanes in (0, 4):
        module = ir.Module()
        for i, (symbol, arguments, result) in enumerate(table):
            types = [shaped(a, lanes) for a in arguments]
            wanted = shaped(result, lanes)
            f = ir.Function(module, ir.FunctionType(wanted, types), f"f{i}")
            b = ir.IRBuilder(f.append_basic_block())
            value = vmath.extern(b, symbol, list(f.args), list(arguments))
            assert value.type == wanted, symbol
            b.ret(value)
        llvm.parse_assembly(str(module)).verify()


def shaped(dtype: str, lanes: int) -> ir.Type:
    e = register_type(dtype)
    return ir.VectorType(e, lanes) if lanes else e


def test_the_cpu_module_has_all_the_names() -> None:
    from triton.language.extra.cuda import libdevice as cuda

    from tileprobe.targets.cpu import libdevice

    public = [n for n in vars(cuda) if not n.startswith("_")]
    assert [n for n in public if getattr(libdevice, n, None) is not getattr(cuda, n)] == []


def test_unknown_symbols_are_named() -> None:
    with pytest.raises(UnsupportedError, match=r"__nv_warp_specialf.*f32.*libdevice"):
        compile_map(lambda b, a: vmath.extern(b, "__nv_warp_specialf", a, ["f32"]), [np.float32], np.float32)
    assert vmath.resolve("__nv_tanhf") == ("tanh", "f32")
    assert vmath.resolve("__nv_nothing") is None


def run(symbol: str, result: type, *args: np.ndarray) -> np.ndarray:
    return compile_map(lambda b, a: vmath.extern(b, symbol, a), [a.dtype for a in args], result, 8)(*args)


I32 = np.array([0, 1, -1, 5, -7, 2**31 - 1, -(2**31), 0x12345678, 1 << 23, -(1 << 23), 40, 255], np.int32)
I64 = np.array([0, 1, -1, 5, -7, 2**63 - 1, -(2**63), 0x123456789ABCDEF0, 1 << 40, -(1 << 52)], np.int64)


def python(f, *args: np.ndarray, bits: int = 32, signed: bool = True) -> list[int]:
    """Apply a function to Python integers and wrap its result to an int32 or int64."""
    values = [[int(v) if signed else int(v) % (1 << bits) for v in a] for a in args]
    return [(f(*v) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)) for v in zip(*values)]


def test_counting_bits() -> None:
    for x, bits, suffix in ((I32, 32, ""), (I64, 64, "ll")):
        text = [format(int(v) % (1 << bits), f"0{bits}b") for v in x]
        assert list(run(f"__nv_clz{suffix}", np.int32, x)) == [len(t) - len(t.lstrip("0")) for t in text]
        assert list(run(f"__nv_popc{suffix}", np.int32, x)) == [t.count("1") for t in text]
        ffs = [0 if "1" not in t else bits - t.rindex("1") for t in text]
        assert list(run(f"__nv_ffs{suffix}", np.int32, x)) == ffs
        brev = run(f"__nv_brev{suffix}", x.dtype, x)
        assert [format(int(v) % (1 << bits), f"0{bits}b") for v in brev] == [t[::-1] for t in text]


def test_integer_arithmetic() -> None:
    x, y = (a.ravel() for a in np.meshgrid(I32, I32))
    z = np.roll(x, 3)
    low24 = lambda v: (v + (1 << 23)) % (1 << 24) - (1 << 23)
    expected = {
        "mulhi": python(lambda a, b: a * b >> 32, x, y),
        "umulhi": python(lambda a, b: a * b >> 32, x, y, signed=False),
        "mul24": python(lambda a, b: low24(a) * low24(b), x, y),
        "umul24": python(lambda a, b: (a % (1 << 24)) * (b % (1 << 24)), x, y, signed=False),
        "hadd": python(lambda a, b: (a + b) >> 1, x, y),
        "uhadd": python(lambda a, b: (a + b) >> 1, x, y, signed=False),
        "rhadd": python(lambda a, b: (a + b + 1) >> 1, x, y),
        "urhadd": python(lambda a, b: (a + b + 1) >> 1, x, y, signed=False),
    }
    for name, want in expected.items():
        assert list(run(f"__nv_{name}", np.int32, x, y)) == want, name
    assert list(run("__nv_sad", np.int32, x, y, z)) == python(lambda a, b, c: abs(a - b) + c, x, y, z)
    want = python(lambda a, b, c: abs(a - b) + c, x, y, z, signed=False)
    assert list(run("__nv_usad", np.int32, x, y, z)) == want
    wide = [a.ravel() for a in np.meshgrid(I64, I64)]
    assert list(run("__nv_mul64hi", np.int64, *wide)) == python(lambda a, b: a * b >> 64, *wide, bits=64)
    want = python(lambda a, b: a * b >> 64, *wide, bits=64, signed=False)
    assert list(run("__nv_umul64hi", np.int64, *wide)) == want


def test_byte_perm() -> None:
    x, y = np.array([0x33221100] * 3, np.int32), np.array([0x77665544] * 3, np.int32)
    selector = np.array([0x3210, 0x7654, 0x0426], np.int32)
    assert list(run("__nv_byte_perm", np.int32, x, y, selector)) == [0x33221100, 0x77665544, 0x00442266]


def test_classes_and_bits() -> None:
    x = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40], np.float32)
    np.testing.assert_array_equal(run("__nv_isnanf", np.int32, x), np.isnan(x))
    np.testing.assert_array_equal(run("__nv_isinff", np.int32, x), np.isinf(x))
    np.testing.assert_array_equal(run("__nv_finitef", np.int32, x), np.isfinite(x))
    np.testing.assert_array_equal(run("__nv_signbitf", np.int32, x)[:6], np.signbit(x)[:6])
    np.testing.assert_array_equal(run("__nv_float_as_int", np.int32, x), x.view(np.int32))
    np.testing.assert_array_equal(run("__nv_int_as_float", np.float32, x.view(np.int32)), x)
    d = np.array([1.5, -2e300, 1e-310])
    high, low = (d.view(np.int64) >> 32).astype(np.int32), d.view(np.int64).astype(np.int32)
    np.testing.assert_array_equal(run("__nv_double2hiint", np.int32, d), high)
    np.testing.assert_array_equal(run("__nv_double2loint", np.int32, d), low)
    np.testing.assert_array_equal(run("__nv_hiloint2double", np.float64, high, low), d)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_exponents(kind: type) -> None:
    suffix = "f" if kind is np.float32 else ""
    x = np.array([1, 8, 0.75, -6, np.finfo(kind).tiny / 8, 0, np.inf, -np.inf, np.nan], kind)
    got = run(f"__nv_ilogb{suffix}", np.int32, x)
    tiny = int(np.finfo(kind).minexp) - 3
    assert list(got) == [0, 3, -1, 2, tiny, -(2**31), 2**31 - 1, 2**31 - 1, -(2**31)]
    n = np.array([0, 3, -3, 10, 4, 7, 1, 2, 3], np.int32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(f"__nv_ldexp{suffix}", kind, x, n), np.ldexp(x, n))
    far = np.array([200, -200, 2000, -2000, 2**31 - 1, -(2**31)], np.int32)
    ones = np.array([1e-30, 1e30, 1, 1, 1, 1], kind)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(run(f"__nv_scalbn{suffix}", kind, ones, far), np.ldexp(ones, far))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_integer_powers(kind: type) -> None:
    suffix = "f" if kind is np.float32 else ""
    x = np.array([2, -2, -2, 0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1.5], kind)
    n = np.array([10, 3, -2, 0, -1, -1, 3, 0, 2**31 - 1, 2**31 - 1, 5], np.int32)
    want = [1024, -8, 0.25, 1, -np.inf, 0, -np.inf, 1, 1, -1, 1.5**5]
    np.testing.assert_array_equal(run(f"__nv_powi{suffix}", kind, x, n), np.array(want, kind))


def test_round_to_long() -> None:
    x = np.array([0.5, 1.5, -2.5, 1e30, -1e30, np.nan], np.float64)
    top, bottom = 2**63 - 1, -(2**63)
    assert list(run("__nv_llrint", np.int64, x)) == [0, 2, -2, top, bottom, 0]
    assert list(run("__nv_llround", np.int64, x)) == [1, 2, -3, top, bottom, 0]
