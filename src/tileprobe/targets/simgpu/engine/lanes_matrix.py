"""Handlers of tensor cores: products of a 16 x K by a K x 8 matrix, added to 16 x 8.

A register row of a fragment is a block of 8 rows in memory, row by row (the PTX ISA draws it), so it needs no
gathering: A as it is, B with rows and columns exchanged, C by weaving two rows together.

`exact` adds as the hardware is known to: products and the accumulator in groups, aligned to the largest exponent of the
group, cut off at `fraction` bits below it, summed exactly, cut off to single precision. A100: groups of 8 (TF32: 4), 24
bits; H100: groups of 16 (TF32: 8), 25 bits; fp8 on H100: groups of 32, 13 bits and results of 13 (arXiv:2511.10909,
which compares with hardware bit by bit). The other way is a chain of fused multiplications in single precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes import F16, F32, F64, I8, I16, I32, I64, POINTER, Lanes, handler

A, B, C, D = at.A, at.B, at.C, at.D
ROWS, COLUMNS = 16, 8
# Places in the scratch memory: matrices and exponents, as floats and 32-bit integers.
M_A, M_B, M_C, M_EA, M_EB = (8192 * n for n in range(1, 6))
WIDE = ir.VectorType(F64, COLUMNS)
NARROW = ir.VectorType(F32, COLUMNS)
WHOLE = ir.VectorType(I32, COLUMNS)
LONG = ir.VectorType(I64, COLUMNS)


@dataclass(frozen=True)
class Form:
    """An element type of A and B. `lowest` is the exponent of its subnormal numbers."""

    name: str
    per_lane: int  # elements in a register of a lane
    lowest: int


FORMS = {form.name: form for form in (Form("f16", 2, -14), Form("bf16", 2, -126), Form("tf32", 1, -126))}


@contextmanager
def loop(b: Any, count: int, step: int = 1) -> Iterator[Any]:
    """A loop from 0 up to `count`; gives its number."""
    before, body, after = b.block, b.append_basic_block("body"), b.append_basic_block("after")
    b.branch(body)
    b.position_at_end(body)
    number = b.phi(I64)
    number.add_incoming(I64(0), before)
    yield number
    following = b.add(number, I64(step))
    number.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, I64(count)), body, after)
    b.position_at_end(after)


def _splat(b: Any, value: Any) -> Any:
    kind = ir.VectorType(value.type, COLUMNS)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
    return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, COLUMNS), [I32(0)] * COLUMNS))


def _fixed(kind: Any, value: Any) -> Any:
    return ir.Constant(kind, [kind.element(value)] * COLUMNS)


def _load(b: Any, address: Any, kind: Any) -> Any:
    return b.load(b.inttoptr(address, POINTER), typ=kind, align=4)


def _store(b: Any, value: Any, address: Any) -> None:
    b.store(value, b.inttoptr(address, POINTER), align=4)


def _call(b: Any, name: str, *values: Any) -> Any:
    kind = values[0].type
    short = {"float": "f32", "double": "f64", "i32": "i32"}[str(kind.element)]
    full = f"{name}.v{COLUMNS}{short}"
    function = b.module.globals.get(full) or ir.Function(
        b.module, ir.FunctionType(kind, [value.type for value in values]), full
    )
    return b.call(function, values)


# -- the sum -------------------------------------------------------------------------------------------------------


def _exponents(b: Any, values: Any, out: Any, count: int, lowest: int) -> None:
    """Of `count` floats: that of the leading bit, not below `lowest`; -126 for zero."""
    with loop(b, 4 * count, 4 * COLUMNS) as offset:
        bits = _load(b, b.add(values, offset), WHOLE)
        field = b.and_(b.lshr(bits, _fixed(WHOLE, 23)), _fixed(WHOLE, 255))
        exponent = b.sub(field, _fixed(WHOLE, 127))
        low = b.icmp_signed("<", exponent, _fixed(WHOLE, lowest))
        exponent = b.select(low, _fixed(WHOLE, lowest), exponent)
        zero = b.icmp_signed("==", b.shl(bits, _fixed(WHOLE, 1)), _fixed(WHOLE, 0))
        _store(b, b.select(zero, _fixed(WHOLE, -126), exponent), b.add(out, offset))


def _power(b: Any, exponents: Any) -> Any:
    """2 to these, as doubles."""
    bits = b.shl(b.sext(b.add(exponents, _fixed(WHOLE, 1023)), LONG), _fixed(LONG, 52))
    return b.bitcast(bits, WIDE)


def cut(b: Any, value: Any, bits: int) -> Any:
    """Doubles to single precision towards zero, with so many bits behind the point; what is too large is infinite."""
    raw = b.bitcast(value, LONG)
    magnitude = b.and_(raw, _fixed(LONG, (1 << 63) - 1))
    near = b.fptrunc(value, NARROW)
    back = b.and_(b.bitcast(b.fpext(near, WIDE), LONG), _fixed(LONG, (1 << 63) - 1))
    over = b.icmp_unsigned(">", back, magnitude)
    finite = b.icmp_unsigned("<", magnitude, _fixed(LONG, (1023 + 128) << 52))
    result = b.bitcast(near, WHOLE)
    result = b.select(b.and_(over, finite), b.sub(result, _fixed(WHOLE, 1)), result)
    if bits < 23:
        result = b.and_(result, _fixed(WHOLE, -(1 << (23 - bits))))
    nan = b.fcmp_unordered("uno", value, value)
    return b.bitcast(b.select(nan, _fixed(WHOLE, 0x7FFFFFFF), result), NARROW)


def _group(
    b: Any, scratch: Any, row: Any, first: int, depth: int, size: int, sum_: Any, fraction: int
) -> Any:
    """The accumulator (doubles) and the products first .. first + size of a row, added as the hardware does."""
    bits = b.bitcast(sum_, LONG)
    field = b.trunc(b.and_(b.lshr(bits, _fixed(LONG, 52)), _fixed(LONG, 0x7FF)), WHOLE)
    largest = b.sub(field, _fixed(WHOLE, 1023))
    low = b.icmp_signed("<", largest, _fixed(WHOLE, -126))
    largest = b.select(low, _fixed(WHOLE, -126), largest)
    products, plain = [], sum_
    for k in range(first, first + size):
        place = b.add(b.mul(row, I64(4 * depth)), I64(4 * k))
        x = _load(b, b.add(scratch, b.add(place, I64(M_A))), F32)
        ex = _load(b, b.add(scratch, b.add(place, I64(M_EA))), I32)
        y = _load(b, b.add(scratch, I64(M_B + 4 * COLUMNS * k)), NARROW)
        ey = _load(b, b.add(scratch, I64(M_EB + 4 * COLUMNS * k)), WHOLE)
        product = b.fmul(_splat(b, b.fpext(x, F64)), b.fpext(y, WIDE))
        products.append(product)
        plain = b.fadd(plain, product)
        exponent = b.add(_splat(b, ex), ey)
        largest = b.select(b.icmp_signed(">", exponent, largest), exponent, largest)
    up = _power(b, b.sub(_fixed(WHOLE, fraction), largest))
    total = _call(b, "llvm.trunc", b.fmul(sum_, up))
    for product in products:
        total = b.fadd(total, _call(b, "llvm.trunc", b.fmul(product, up)))
    result = b.fmul(total, _power(b, b.sub(largest, _fixed(WHOLE, fraction))))
    # where something is infinite or no number, so is the plain sum
    special = b.fcmp_unordered("uno", b.fsub(plain, plain), b.fsub(plain, plain))
    return b.select(special, plain, result)


def _exact(
    b: Any, scratch: Any, depth: int, size: int, fraction: int, lowest: tuple[int, int], bits: int
) -> None:
    """`lowest`: of A's and of B's format."""
    _exponents(b, b.add(scratch, I64(M_A)), b.add(scratch, I64(M_EA)), ROWS * depth, lowest[0])
    _exponents(b, b.add(scratch, I64(M_B)), b.add(scratch, I64(M_EB)), COLUMNS * depth, lowest[1])
    with loop(b, ROWS) as row:
        place = b.add(b.add(scratch, I64(M_C)), b.mul(row, I64(4 * COLUMNS)))
        value = _load(b, place, NARROW)
        for first in range(0, depth, size):
            total = _group(b, scratch, row, first, depth, size, b.fpext(value, WIDE), fraction)
            value = cut(b, total, bits)
        _store(b, value, place)


def _chained(b: Any, scratch: Any, depth: int) -> None:
    with loop(b, ROWS) as row:
        place = b.add(b.add(scratch, I64(M_C)), b.mul(row, I64(4 * COLUMNS)))
        value = _load(b, place, NARROW)
        for k in range(depth):
            offset = b.add(b.mul(row, I64(4 * depth)), I64(M_A + 4 * k))
            x = _load(b, b.add(scratch, offset), F32)
            y = _load(b, b.add(scratch, I64(M_B + 4 * COLUMNS * k)), NARROW)
            value = _call(b, "llvm.fma", _splat(b, x), y, value)
        _store(b, value, place)


# -- fragments -----------------------------------------------------------------------------------------------------


def _elements(k: Lanes, source: int, row: int, form: str) -> Any:
    """All elements of a register row, in the order of memory, as floats."""
    b, bits = k.b, k.row(source, row)
    if form == "tf32":  # the low bits are not looked at
        return b.bitcast(b.and_(bits, k.splat(-(1 << 13), I32)), ir.VectorType(F32, 32))
    halves = b.bitcast(bits, ir.VectorType(I16, 64))
    if form == "f16":
        return b.fpext(b.bitcast(halves, ir.VectorType(F16, 64)), ir.VectorType(F32, 64))
    wide = b.shl(b.zext(halves, ir.VectorType(I32, 64)), ir.Constant(ir.VectorType(I32, 64), [I32(16)] * 64))
    return b.bitcast(wide, ir.VectorType(F32, 64))


def _pick(b: Any, value: Any, places: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(I32, len(places)), [I32(n) for n in places])
    return b.shuffle_vector(value, value, mask)


def _put_a(k: Lanes, depth: int, width: int, values: list[Any]) -> None:
    """Blocks of 8 rows x `width`: rows 0 to 7, rows 8 to 15, then the next columns."""
    for n, value in enumerate(values):
        first, column = 8 * (n % 2), width * (n // 2)
        for row in range(8):
            part = _pick(k.b, value, [row * width + c for c in range(width)])
            _store(k.b, part, k.b.add(k.scratch, I64(M_A + 4 * (depth * (first + row) + column))))


def _put_b(k: Lanes, width: int, values: list[Any]) -> None:
    """Blocks of 8 columns x `width`, each column in a row of its own in the register: exchanged."""
    for n, value in enumerate(values):
        for row in range(width):
            part = _pick(k.b, value, [column * width + row for column in range(COLUMNS)])
            _store(k.b, part, k.b.add(k.scratch, I64(M_B + 4 * COLUMNS * (width * n + row))))


def _woven(b: Any, first: Any, second: Any) -> Any:
    mask = [place for n in range(32) for place in (n, 32 + n)]
    return b.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, 64), [I32(n) for n in mask]))


def put_sums(k: Lanes) -> None:
    """C: four rows of 32-bit numbers, of which two by two make a block."""
    for n in (0, 1):
        block = _woven(k.b, k.row(C, 2 * n), k.row(C, 2 * n + 1))
        _store(k.b, block, k.b.add(k.scratch, I64(M_C + 256 * n)))


def get_sums(k: Lanes) -> None:
    for n in (0, 1):
        block = _load(k.b, k.b.add(k.scratch, I64(M_C + 256 * n)), ir.VectorType(I32, 64))
        for part in (0, 1):
            k.out(_pick(k.b, block, list(range(part, 64, 2))), 2 * n + part)


def _put_half_sums(k: Lanes) -> None:
    for n in (0, 1):
        halves = k.b.bitcast(k.row(C, n), ir.VectorType(F16, 64))
        _store(k.b, k.b.fpext(halves, ir.VectorType(F32, 64)), k.b.add(k.scratch, I64(M_C + 256 * n)))


def _get_half_sums(k: Lanes) -> None:
    from tileprobe.targets.simgpu.engine.lanes_half import to_half

    for n in (0, 1):
        block = _load(k.b, k.b.add(k.scratch, I64(M_C + 256 * n)), ir.VectorType(F32, 64))
        low, high = (to_half(k, _pick(k.b, block, list(range(part, 64, 2))), "f16") for part in (0, 1))
        k.out(k.b.or_(low, k.b.shl(high, k.splat(16, I32))), n)


def _hmma(k: Lanes, form: str, half: bool, machine: str) -> None:
    kind = FORMS[form]
    width = 4 * kind.per_lane
    depth = 2 * width
    _put_a(k, depth, width, [_elements(k, A, n, form) for n in range(4)])
    _put_b(k, width, [_elements(k, B, n, form) for n in range(2)])
    (_put_half_sums if half else put_sums)(k)
    if machine == "fast":
        _chained(k.b, k.scratch, depth)
    else:
        size, fraction = {"a100": (width, 24), "h100": (2 * width, 25)}[machine]
        _exact(k.b, k.scratch, depth, size, fraction, (kind.lowest, kind.lowest), 23)
    (_get_half_sums if half else get_sums)(k)


MACHINES = ("fast", "a100", "h100")
for _machine in MACHINES:
    for _form in FORMS:
        handler(f"hmma_{_form}_{_machine}", partial(_hmma, form=_form, half=False, machine=_machine))
    handler(f"hmma_f16_half_{_machine}", partial(_hmma, form="f16", half=True, machine=_machine))


_EIGHT_BITS = {"e4m3": (-6, -6), "e5m2": (-14, -14), "e4m3e5m2": (-6, -14), "e5m2e4m3": (-14, -6)}


def _block(k: Lanes, depth: int, machine: str, form: str) -> None:
    """For warp groups: A, B and C are in the scratch memory already."""
    if machine == "fast":
        _chained(k.b, k.scratch, depth)
        return
    if form in _EIGHT_BITS:
        _exact(k.b, k.scratch, depth, 32, 13, _EIGHT_BITS[form], 13)
        return
    lowest = FORMS[form].lowest
    _exact(k.b, k.scratch, depth, depth, 25, (lowest, lowest), 23)


DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}
for _form, _depth in DEPTHS.items():
    for _machine in ("fast", "h100"):
        handler(f"block_{_form}_{_machine}", partial(_block, depth=_depth, machine=_machine, form=_form))
for _form in ("e4m3e5m2", "e5m2e4m3"):
    handler(f"block_{_form}_h100", partial(_block, depth=32, machine="h100", form=_form))


# -- integers and doubles ------------------------------------------------------------------------------------------


def _imma_elements(k: Lanes, source: int, row: int, signed: bool) -> Any:
    bytes_ = k.b.bitcast(k.row(source, row), ir.VectorType(I8, 128))
    return (k.b.sext if signed else k.b.zext)(bytes_, ir.VectorType(I32, 128))


def integer_sums(b: Any, scratch: Any, depth: int, saturate: bool) -> None:
    with loop(b, ROWS) as row:
        place = b.add(b.add(scratch, I64(M_C)), b.mul(row, I64(4 * COLUMNS)))
        total = _fixed(WHOLE, 0)
        for k in range(depth):
            offset = b.add(b.mul(row, I64(4 * depth)), I64(M_A + 4 * k))
            x = _load(b, b.add(scratch, offset), I32)
            y = _load(b, b.add(scratch, I64(M_B + 4 * COLUMNS * k)), WHOLE)
            total = b.add(total, b.mul(_splat(b, x), y))
        before = _load(b, place, WHOLE)
        _store(b, _call(b, "llvm.sadd.sat", total, before) if saturate else b.add(total, before), place)


def _imma(k: Lanes, first: bool, second: bool, saturate: bool) -> None:
    _put_a(k, 32, 16, [_imma_elements(k, A, n, first) for n in range(4)])
    _put_b(k, 16, [_imma_elements(k, B, n, second) for n in range(2)])
    put_sums(k)
    integer_sums(k.b, k.scratch, 32, saturate)
    get_sums(k)


for _first in (False, True):
    for _second in (False, True):
        for _saturate in (False, True):
            _name = f"imma_{'us'[_first]}{'us'[_second]}{'_sat' * _saturate}"
            handler(_name, partial(_imma, first=_first, second=_second, saturate=_saturate))
handler("block_s8", lambda k: integer_sums(k.b, k.scratch, 32, False))


def _dmma(k: Lanes) -> None:
    """8 x 4 by 4 x 8 in doubles: A[g][t], B[t][g] and C[g][2t], C[g][2t + 1] of the lane 4g + t."""
    b = k.b

    def doubles(source: int, row: int) -> Any:
        return b.bitcast(k.wide(source, row), ir.VectorType(F64, 32))

    x, y = doubles(A, 0), doubles(B, 0)
    sums = [doubles(C, 0), doubles(C, 2)]
    for n in range(4):
        left = _pick(b, x, [4 * (lane // 4) + n for lane in range(32)])
        for part in (0, 1):
            right = _pick(b, y, [4 * (2 * (lane % 4) + part) + n for lane in range(32)])
            sums[part] = k.call("llvm.fma", left, right, sums[part])
    for part in (0, 1):
        k.out_wide(b.bitcast(sums[part], ir.VectorType(I64, 32)), 2 * part)


handler("dmma", _dmma)
