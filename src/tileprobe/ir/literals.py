"""Exact reading and writing of MLIR number literals.

Comes in: the text between the brackets of `dense<...>` and an element type. Goes out: the little-endian
bytes of the elements. xDSL reads a hexadecimal float inside `dense` as an integer and converts that
(`0xFF800000`, minus infinity, becomes 4.29e9), so every dense literal is turned into bytes here first.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from tileprobe.errors import TileProbeError

# dense<BODY> : tensor<4x8xf32 ... ; the body is either a quoted hex string or free of '<' and '>'.
# The first alternative steps over strings, so a string that quotes MLIR is left alone.
_DENSE = re.compile(
    r'"(?:[^"\\]|\\.)*"|\bdense<((?:"0x[0-9A-Fa-f]*")|[^<>"]*)> : (?:tensor|vector)<(?:\d+x)*([a-z]\w*)'
)
_HEX_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|\b(0x[0-9A-Fa-f]+) : (b?f\d\w*)')
_ELEMENT = re.compile(r"[^\s,\[\]]+")
_INTEGER_TYPE = re.compile(r"([us]?)i(\d+)$")
_FLOAT_TYPES: dict[str, AnyFloat] = {}

# Name of the attribute that holds a scalar float literal as text when a Python float cannot hold its bits.
RAW_FLOAT = "tileprobe.raw_float"


def element_type(name: str) -> Attribute:
    """The xDSL type of a scalar type's name: `i32`, `bf16`, `f8E5M2`, `index`."""
    found = _element_type(name)
    if found is None:
        raise TileProbeError(
            f"the bridge met a constant of the element type {name!r}, which xDSL does not know"
        )
    return found


@lru_cache(maxsize=256)
def _element_type(name: str) -> Attribute | None:
    if name == "index":
        return IndexType()
    if match := _INTEGER_TYPE.match(name):
        sign = {"": Signedness.SIGNLESS, "s": Signedness.SIGNED, "u": Signedness.UNSIGNED}[match[1]]
        return IntegerType(int(match[2]), sign)
    if not _FLOAT_TYPES:
        _FLOAT_TYPES.update(_builtin_floats())
    return _FLOAT_TYPES.get(name)


def _builtin_floats() -> dict[str, AnyFloat]:
    classes = [c for c in vars(builtin).values() if isinstance(c, type) and issubclass(c, builtin.AnyFloat)]
    return {c.name: c() for c in classes if isinstance(getattr(c, "name", None), str)}


def float_bits(value: float, kind: AnyFloat) -> int:
    """The bit pattern of `value` rounded to `kind`."""
    return int.from_bytes(kind.pack((value,)), "little")


def bits_to_float(bits: int, kind: AnyFloat) -> float:
    """The number a bit pattern of type `kind` stands for."""
    return kind.unpack(bits.to_bytes(kind.compile_time_size, "little"), 1)[0]


def float_text(value: float, kind: AnyFloat) -> str:
    """A float literal that MLIR reads back as exactly these bits."""
    return f"0x{float_bits(value, kind):0{2 * kind.compile_time_size}X}"


def element_bytes(text: str, kind: Attribute) -> bytes:
    """The bytes of one element literal: `true`, `-3`, `1.5e+00`, `0x7FC00000`."""
    if isinstance(kind, AnyFloat):
        if text[:2].lower() == "0x":
            return int(text, 16).to_bytes(kind.compile_time_size, "little")
        return kind.pack((float(text),))
    if not isinstance(kind, IntegerType | IndexType):
        raise TileProbeError(f"the bridge cannot read a dense constant of {kind}")
    value = {"true": 1, "false": 0}.get(text)
    value = int(text, 0) if value is None else value
    if isinstance(kind, IntegerType):
        value = kind.get_normalized_value(value)
    return kind.pack((value,))


def dense_bytes(body: str, kind: Attribute) -> bytes:
    """The bytes of a dense literal's body: of one element if it is a splat, else of all in order."""
    if body.startswith('"'):
        return bytes.fromhex(body[3:-1])
    return b"".join(element_bytes(element, kind) for element in _ELEMENT.findall(body))


def dense_attribute(body: str, kind: Attribute) -> DenseIntOrFPElementsAttr:
    """The attribute written `dense<body> : kind`."""
    if not isinstance(kind, TensorType) or not isinstance(kind.element_type, FixedBitwidthType):
        raise TileProbeError(f"the bridge cannot read a dense constant of {kind}")
    data = dense_bytes(body, kind.element_type)
    count = prod(kind.get_shape())
    if len(data) == kind.element_type.compile_time_size:
        data *= count
    if len(data) != count * kind.element_type.compile_time_size:
        raise TileProbeError(f"a dense constant of {kind} has the wrong number of elements: {body[:80]}")
    return DenseIntOrFPElementsAttr(kind, BytesAttr(data))


def exact_literals(text: str) -> str:
    """Rewrite the literals of an attribute dictionary that xDSL would not keep bit by bit."""
    return _keep_odd_nans(normalise_dense(text)) if "0x" in text or "dense<" in text else text


def _keep_odd_nans(text: str) -> str:
    """Wrap scalar NaNs whose bits a Python float cannot carry (signalling ones, payloads of f16)."""

    def rewrite(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        kind = element_type(match[2])
        bits = int(match[1], 16)
        if not isinstance(kind, AnyFloat) or float_bits(bits_to_float(bits, kind), kind) == bits:
            return match[0]
        return f"#{RAW_FLOAT}<{match[0]}>"

    return _HEX_SCALAR.sub(rewrite, text)


def normalise_dense(text: str) -> str:
    """Rewrite every dense literal in `text` as the hex string of its bytes, which xDSL keeps bit by bit."""

    def rewrite(match: re.Match[str]) -> str:
        body = match[1]
        if not body:  # a string, or an empty literal: both stay
            return match[0]
        data = dense_bytes(body, element_type(match[2]))
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        return f'{match[0][:start]}"0x{data.hex()}"{match[0][end:]}'

    return _DENSE.sub(rewrite, text)
