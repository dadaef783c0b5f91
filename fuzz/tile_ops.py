"""Operations on whole tiles: shapes, reductions, scans, order, products. An extension of the table in `fuzz.ops`."""

from __future__ import annotations

import math
from typing import Any

from fuzz.ops import OPS, Op, expect, shape_text, tl_type
from fuzz.program import Expr, Shape

# Combine functions of reductions and scans; a kernel's text holds those it names. All are associative; the
# ones that do not commute are for scans only, since the order of a reduction is not defined.
COMBINES = {
    "c_add": "def c_add(a, b):\n    return a + b",
    "c_mul": "def c_mul(a, b):\n    return a * b",
    "c_and": "def c_and(a, b):\n    return a & b",
    "c_or": "def c_or(a, b):\n    return a | b",
    "c_xor": "def c_xor(a, b):\n    return a ^ b",
    "c_max": "def c_max(a, b):\n    return tl.maximum(a, b)",
    "c_min": "def c_min(a, b):\n    return tl.where(a < b, a, b)",
    "c_last": "def c_last(a, b):\n    return b",
    "c_first": "def c_first(a, b):\n    return a",
    "c_both": "def c_both(a, x, b, y):\n    return a + b, tl.maximum(x, y)",
    "c_best": (
        "def c_best(a, x, b, y):\n    left = (a > b) | ((a == b) & (x < y))\n"
        "    return tl.where(left, a, b), tl.where(left, x, y)"
    ),
    "c_affine": "def c_affine(a, x, b, y):\n    return a * b, x * b + y",
}
COMMUTING = ("c_add", "c_mul", "c_and", "c_or", "c_xor", "c_max", "c_min")
BITS = ("c_and", "c_or", "c_xor")


def _expand(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    shape = list(args[0].shape)
    expect(bool(shape) and attrs["axis"] <= len(shape), "expand_dims")
    shape.insert(attrs["axis"], 1)
    return args[0].dtype, tuple(shape)


def _expand_text(e: Expr, a: list[str]) -> str:
    if e.attrs.get("function"):
        return f"tl.expand_dims({a[0]}, {e.attrs['axis']})"
    return f"{a[0]}[{', '.join('None' if i == e.attrs['axis'] else ':' for i in range(len(e.shape)))}]"


OPS["expand"] = Op(_expand, _expand_text)


def _broadcast(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    source, shape = args[0].shape, tuple(attrs["shape"])
    fits = not source or (len(source) == len(shape) and all(x in (1, y) for x, y in zip(source, shape)))
    expect(fits, f"broadcast {source} to {shape}")
    return args[0].dtype, shape


OPS["broadcast"] = Op(_broadcast, lambda e, a: f"tl.broadcast_to({a[0]}, {shape_text(e.shape)})")


def _trans(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect(len(attrs["order"]) == len(args[0].shape), "permutation of another rank")
    return args[0].dtype, tuple(args[0].shape[i] for i in attrs["order"])


def _trans_text(e: Expr, a: list[str]) -> str:
    if e.attrs["order"] == (1, 0):
        return f"tl.trans({a[0]})"
    return f"tl.permute({a[0]}, {shape_text(e.attrs['order'])})"


OPS["trans"] = Op(_trans, _trans_text)


def _reshape(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect(bool(args[0].shape) and math.prod(args[0].shape) == math.prod(attrs["shape"]), "reshape")
    return args[0].dtype, tuple(attrs["shape"])


OPS["reshape"] = Op(_reshape, lambda e, a: f"tl.reshape({a[0]}, {shape_text(e.shape)})")


def _pair(args: tuple[Expr, ...]) -> None:
    expect(args[0].dtype == args[1].dtype and args[0].shape == args[1].shape, "two tiles of one type")
    expect(bool(args[0].shape), "tiles, not scalars")


def _join(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    _pair(args)
    return args[0].dtype, (*args[0].shape, 2)


def _split(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect(len(args[0].shape) > 1 and args[0].shape[-1] == 2, "split")
    return args[0].dtype, args[0].shape[:-1]


def _double(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    _pair(args)
    return args[0].dtype, (*args[0].shape[:-1], 2 * args[0].shape[-1])


OPS["join"] = Op(_join, lambda e, a: f"tl.join({a[0]}, {a[1]})")
OPS["split"] = Op(_split, lambda e, a: f"tl.split({a[0]})[{e.attrs['which']}]")
OPS["interleave"] = Op(_double, lambda e, a: f"tl.interleave({a[0]}, {a[1]})")
OPS["cat"] = Op(_double, lambda e, a: f"tl.cat({a[0]}, {a[1]}, dim={len(e.shape) - 1})")


def _along(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect(attrs["axis"] < len(args[0].shape), "axis")
    expect(all(a.shape == args[0].shape for a in args), "tiles of one shape")
    return args[attrs.get("which", 0)].dtype, args[0].shape


OPS["flip"] = Op(_along, lambda e, a: f"tl.flip({a[0]}, {e.attrs['axis']})")
OPS["sort"] = Op(_along, lambda e, a: f"tl.sort({a[0]}, descending={e.attrs['descending']})")


def _gather(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    source, index = args
    expect(len(source.shape) == len(index.shape) > attrs["axis"], "gather")
    other = [i for i in range(len(source.shape)) if i != attrs["axis"]]
    expect(all(source.shape[i] == index.shape[i] for i in other), "gather")
    return source.dtype, index.shape


OPS["gather"] = Op(_gather, lambda e, a: f"tl.gather({a[0]}, {a[1]}, axis={e.attrs['axis']})")


# Reductions and scans. Triton widens narrow types in some of them: what comes out is converted back.
def _reduce(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    shape, axis = args[0].shape, attrs["axis"]
    expect(bool(shape) and all(a.shape == shape for a in args), "tiles of one shape")
    dtype = attrs.get("dtype") or args[attrs.get("which", 0)].dtype
    if axis is None:
        return dtype, (1,) * len(shape) if attrs["keep"] else ()
    expect(axis < len(shape), "axis")
    return dtype, (*shape[:axis], *((1,) if attrs["keep"] else ()), *shape[axis + 1 :])


def _reduce_text(e: Expr, a: list[str]) -> str:
    name, keep = e.attrs["function"], ", keep_dims=True" if e.attrs["keep"] else ""
    if name not in COMBINES:
        return f"tl.{name}({a[0]}, axis={e.attrs['axis']}{keep}).to({tl_type(e.dtype)})"
    if len(a) == 1:
        return f"tl.reduce({a[0]}, {e.attrs['axis']}, {name}{keep})"
    return f"tl.reduce(({', '.join(a)}), {e.attrs['axis']}, {name}{keep})[{e.attrs['which']}]"


def _scan_text(e: Expr, a: list[str]) -> str:
    name, reverse = e.attrs["function"], f", reverse={e.attrs['reverse']}"
    if name not in COMBINES:
        return f"tl.{name}({a[0]}, axis={e.attrs['axis']}{reverse}).to({tl_type(e.dtype)})"
    if len(a) == 1:
        return f"tl.associative_scan({a[0]}, {e.attrs['axis']}, {name}{reverse})"
    return f"tl.associative_scan(({', '.join(a)}), {e.attrs['axis']}, {name}{reverse})[{e.attrs['which']}]"


OPS["reduce"] = Op(_reduce, _reduce_text)
OPS["scan"] = Op(_along, _scan_text)
OPS["histogram"] = Op(
    lambda args, attrs: ("int32", (attrs["bins"],)),
    lambda e, a: f"tl.histogram({a[0]}, {e.attrs['bins']})",
)


# Products
def _dot(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    a, b = args[:2]
    expect(a.dtype == b.dtype and len(a.shape) == len(b.shape) in (2, 3), "dot")
    expect(a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2], "dot")
    shape = (*a.shape[:-1], b.shape[-1])
    if len(args) > 2:
        expect(args[2].shape == shape and args[2].dtype == attrs["out"], "accumulator")
    return attrs["out"], shape


OPS["dot"] = Op(
    _dot,
    lambda e, a: f"tl.dot({', '.join(a)}, input_precision='ieee', out_dtype={tl_type(e.attrs['out'])})",
)


# Tensor descriptors: a handle of dtype "desc:<type>" whose shape is that of a block
def _descriptor(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    expect(args[0].dtype.startswith("*") and not args[0].shape, "descriptor")
    return "desc:" + args[0].dtype[1:], tuple(attrs["block"])


def _descriptor_text(e: Expr, a: list[str]) -> str:
    rows, columns = e.attrs["rows"]
    return (
        f"tl.make_tensor_descriptor({a[0]}, shape=[{rows}, {columns}], "
        f"strides=[{e.attrs['stride']}, 1], block_shape={list(e.attrs['block'])})"
    )


def _block_load(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    return args[0].dtype.removeprefix("desc:"), args[0].shape


def _block_store(args: tuple[Expr, ...], attrs: dict[str, Any]) -> tuple[str, Shape]:
    handle, value = args[:2]
    expect(handle.dtype == "desc:" + value.dtype and handle.shape == value.shape, "block store")
    return "void", ()


OPS["descriptor"] = Op(_descriptor, _descriptor_text)
OPS["block_load"] = Op(_block_load, lambda e, a: f"{a[0]}.load([{a[1]}, {a[2]}])")
OPS["block_store"] = Op(_block_store, lambda e, a: f"{a[0]}.store([{a[2]}, {a[3]}], {a[1]})")
