"""CUDA's libdevice symbols, served by this package's functions: `__nv_expf` is exp on f32, and so on.

`extern` is what codegen calls for tt.extern_elementwise. The table of symbols is derived from the names of
triton.language.extra.cuda.libdevice, which the CPU's libdevice re-exports.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from tileprobe.errors import UnsupportedError

from .registry import emit, lookup

# functions whose symbols are __nv_<name>f for float and __nv_<name> for double
_PLAIN = """
    floor ceil trunc rint nearbyint round sqrt rsqrt exp exp2 exp10 expm1 log log2 log10 log1p
    sin cos tan sinpi cospi asin acos atan atan2 sinh cosh tanh asinh acosh atanh hypot rhypot norm3d rnorm3d
    norm4d rnorm4d cbrt rcbrt j0 j1 jn y0 y1 yn cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcx erfinv erfcinv
    normcdf normcdfinv lgamma tgamma ldexp scalbn fmod remainder fma pow powi fdim copysign nextafter
    ilogb logb llrint llround
"""
_DIRECTED = "add sub mul div rcp sqrt"
_FAST = "sin cos tan exp exp10 log log2 log10 pow"
_INTEGER = "clz popc ffs brev abs mulhi umulhi mul24 umul24 sad usad hadd uhadd rhadd urhadd byte_perm"
_KINDS = {"int": "i32", "uint": "i32", "ll": "i64", "ull": "i64", "float": "f32", "double": "f64"}


def _table() -> dict[str, tuple[str, str]]:
    """symbol without __nv_ -> (name, element type)."""
    out: dict[str, tuple[str, str]] = {}
    for name in _PLAIN.split():
        out[f"{name}f"], out[name] = (name, "f32"), (name, "f64")
    for mode in ("rn", "rz", "ru", "rd"):
        out[f"fmaf_{mode}"], out[f"fma_{mode}"] = (f"fma_{mode}", "f32"), (f"fma_{mode}", "f64")
        for name in _DIRECTED.split():
            out[f"f{name}_{mode}"] = (f"{name}_{mode}", "f32")
            out[f"d{name}_{mode}"] = (f"{name}_{mode}", "f64")
        for source, dtype in _KINDS.items():
            for target in _KINDS:
                symbol = f"{source}2{target}_{mode}"
                if lookup(symbol, dtype):
                    out[symbol] = (symbol, dtype)
    out |= {f"fast_{name}f": (name, "f32") for name in _FAST.split()}
    out |= {name: (name, "i32") for name in _INTEGER.split()}
    out |= {f"{name}ll": (name, "i64") for name in ("clz", "popc", "ffs", "brev")}
    out |= {
        "fast_fdividef": ("div_rn", "f32"),
        "frsqrt_rn": ("rsqrt_rn", "f32"),
        "saturatef": ("saturate", "f32"),
        "fabsf": ("abs", "f32"),
        "fabs": ("abs", "f64"),
        "llabs": ("abs", "i64"),
        "mul64hi": ("mulhi", "i64"),
        "umul64hi": ("umulhi", "i64"),
        "isnanf": ("isnan", "f32"),
        "isnand": ("isnan", "f64"),
        "isinff": ("isinf", "f32"),
        "isinfd": ("isinf", "f64"),
        "signbitf": ("signbit", "f32"),
        "signbitd": ("signbit", "f64"),
        "finitef": ("isfinite", "f32"),
        "isfinited": ("isfinite", "f64"),
        "rcp64h": ("rcp64h", "f64"),
        "hiloint2double": ("hiloint2double", "i32"),
        "double2loint": ("double2loint", "f64"),
        "double2hiint": ("double2hiint", "f64"),
        "float_as_int": ("float_as_int", "f32"),
        "float_as_uint": ("float_as_uint", "f32"),
        "double_as_longlong": ("double_as_longlong", "f64"),
        "int_as_float": ("int_as_float", "i32"),
        "uint_as_float": ("uint_as_float", "i32"),
        "longlong_as_double": ("longlong_as_double", "i64"),
    }
    return out


_SYMBOLS: dict[str, tuple[str, str]] = {}


def resolve(symbol: str) -> tuple[str, str] | None:
    """The function's name and element type behind a libdevice symbol."""
    if not _SYMBOLS:
        _SYMBOLS.update(_table())
    found = _SYMBOLS.get(symbol.removeprefix("__nv_"))
    return found if found and lookup(*found) else None


def extern(builder: ir.IRBuilder, symbol: str, args: list[Any], types: list[str] | None = None) -> Any:
    """The value of an external elementwise function; `types` of the arguments serve the message."""
    found = resolve(symbol)
    if found is None:
        given = f" of ({', '.join(types)})" if types else ""
        raise UnsupportedError(
            f"the external function {symbol!r}{given} does not exist on the CPU target; it provides the "
            "functions of triton.language.extra.libdevice"
        )
    entry = lookup(*found)
    assert entry is not None
    return emit(builder, found[0], entry, args)
