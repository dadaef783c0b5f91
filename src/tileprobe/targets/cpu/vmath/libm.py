"""Lane-by-lane calls of the C library's math functions: the long tail, and far arguments.

The symbols are resolved from the process, where Python has loaded libm.
"""

from __future__ import annotations

import llvmlite.ir as ir

from .registry import register
from .values import FLOAT, I32, Val, declare, element, lanes


def lanewise(name: str, *args: Val) -> Val:
    """libm's `name` (or `namef`) applied to each lane; it returns what the first float is."""
    model = next(a for a in args if a.is_float)
    e = element(model.type)
    symbol = name + "f" if e == FLOAT else name
    b = model.b
    f = declare(b.module, symbol, e, [element(a.type) for a in args])
    f.attributes.add("nounwind")
    count = lanes(model.type)
    if not count:
        return Val(b, b.call(f, [a.v for a in args]))
    out: ir.Value = ir.Constant(model.type, ir.Undefined)
    for i in range(count):
        index = I32(i)
        one = b.call(f, [b.extract_element(a.v, index) for a in args])
        out = b.insert_element(out, one, index)
    return Val(b, out)


def _serve(*names: str, types: tuple[str, ...] = ("f32", "f64")) -> None:
    for name in names:
        register(name, types=types, place="call")(lambda *args, _name=name: lanewise(_name, *args))


_serve("tan", "pow", "asin", "acos", "atan", "atan2", types=("f64",))
_serve("asinh", "acosh", "atanh", "erfc", "ldexp", types=("f64",))
_serve("lgamma", "tgamma", "fmod", "remainder")
_serve("j0", "j1", "y0", "y1", "jn", "yn", types=("f64",))


@register("scalbn", types=("f64",), place="call")
def scalbn(x: Val, n: Val) -> Val:
    return lanewise("ldexp", x, n)


def _through_double(name: str) -> None:
    """Near their zeros libm's float Bessel functions are far off; the double ones are not."""

    def emit(*args: Val) -> Val:
        return lanewise(name, *(a.f64() if a.is_float else a for a in args)).f32()

    register(name, types=("f32",), place="call")(emit)


for _name in ("j0", "j1", "y0", "y1", "jn", "yn"):
    _through_double(_name)
