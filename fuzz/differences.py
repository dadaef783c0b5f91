"""Known differences between Triton's interpreter and Triton: one table, each with its reason.

Some are mended in the interpreter before it is used (`MENDED`), the others are kept out of generated kernels
(`AVOIDED`). Nothing is tolerated silently.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

MENDED = {
    "bfloat16 in arithmetic, comparisons and dot": "done on the bits as if they were integers",
    "conversions to bfloat16": "truncated from float32, not rounded to the nearest even; wrong from other types",
    "conversions to fp8": "ties are rounded up, and a carry into the exponent is lost",
    "comparisons": "the handle keeps the type of the operands, so a scalar condition that is splat is no condition",
    "overflow checks": "costly, and off by default in compiled kernels, too",
}
AVOIDED = {
    "two names for one value before a loop": "the front end loses one; no variable is assigned to another as it is",
    "arithmetic in fp8": "done on the bits as integers; kernels convert to float32 first",
    "constants of fp8": "the number is taken for the bits; kernels convert a float32",
    "NaN in reductions, scans and sort": "ignored (nanmax, nanargmax), where Triton's combine functions may pass it on",
    "the sign of zero": "max and min of zeros of both signs may return either; 0.0 and -0.0 compare equal",
    "rounding in another order": "float sums and products are of whole numbers small enough to be exact",
    "values of integer types behind `int1`": "only 0 and 1 are stored in tensors of int1",
    "dot of float16 with float16 accumulator": "the interpreter rounds once per operation of NumPy",
}


def install(interpreter: Any) -> None:
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
    cls = type(builder)
    _mend_dot(interpreter, cls)
    _mend_comparisons(interpreter, cls)
    _mend_rounding(interpreter, cls)
    _mend_fp8(interpreter)
    _mend_arithmetic(interpreter, cls)


def _widen(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _mend_dot(interpreter: Any, cls: Any) -> None:
    original, language = cls.create_dot, interpreter.tl

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        if a.dtype.scalar == language.bfloat16:
            a = interpreter.TensorHandle(_widen(a.data), language.float32)
            b = interpreter.TensorHandle(_widen(b.data), language.float32)
        return original(self, a, b, d, *rest)

    cls.create_dot = create_dot


def _narrow(values: np.ndarray) -> np.ndarray:
    """float32 as the bits of bfloat16, rounded to the nearest even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)


def _mend_rounding(interpreter: Any, cls: Any) -> None:
    original, language = cls.cast_impl, interpreter.tl

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        if target.scalar == language.bfloat16 and source.dtype.scalar != language.bfloat16:
            return interpreter.TensorHandle(_narrow(source.data), target.scalar)
        return original(self, source, target)

    cls.cast_impl = cast_impl


def _mend_fp8(interpreter: Any) -> None:
    """Let torch round, which does it to the nearest even; what is out of range stays as it was."""
    import torch

    original, language = interpreter._convert_float, interpreter.tl
    types = {language.float8e5: torch.float8_e5m2, language.float8e4nv: torch.float8_e4m3fn}
    wide = {language.float16: np.float16, language.float32: np.float32, language.float64: np.float64}

    def convert(data: Any, have: Any, want: Any, rounding: Any) -> Any:
        result = original(data, have, want, rounding)
        if want not in types or have not in wide:
            return result
        values = np.frombuffer(data.tobytes(), wide[have]).astype(np.float32)
        rounded = torch.from_numpy(values).to(types[want]).view(torch.uint8).numpy()
        inside = np.abs(values) <= torch.finfo(types[want]).max
        return np.where(inside, rounded, result.ravel()).reshape(result.shape)

    interpreter._convert_float = convert


def _mend_arithmetic(interpreter: Any, cls: Any) -> None:
    handle, language = interpreter.TensorHandle, interpreter.tl
    binary, unary = cls.binary_op, cls.unary_op

    def binary_op(self: Any, a: Any, b: Any, op: Any) -> Any:
        if a.dtype.scalar != language.bfloat16:
            return binary(self, a, b, op)
        result = op(_widen(a.data), _widen(b.data))
        return handle(result if result.dtype == bool else _narrow(result), language.bfloat16)

    def unary_op(self: Any, a: Any, op: Any) -> Any:
        if a.dtype.scalar != language.bfloat16:
            return unary(self, a, op)
        return handle(_narrow(op(_widen(a.data))), language.bfloat16)

    cls.binary_op, cls.unary_op = binary_op, unary_op


def _mend_comparisons(interpreter: Any, cls: Any) -> None:
    def mended(original: Any) -> Any:
        def create(self: Any, a: Any, b: Any) -> Any:
            return interpreter.TensorHandle(original(self, a, b).data.astype(bool), interpreter.tl.int1)

        return create

    for name in dir(cls):
        if name.startswith(("create_icmp", "create_fcmp")):
            setattr(cls, name, mended(getattr(cls, name)))
