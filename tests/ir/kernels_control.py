"""Kernels with unusual control flow or foreign code, for the tests of the bridge."""

import triton
import triton.language as tl
from bridge_stages import NVIDIA, Case
from triton.language.extra import libdevice


@triton.jit
def loops_and_branches(x, out, n, limit):
    total = 0.0
    i = 0
    while i < n:
        value = tl.load(x + i)
        if value > limit:
            total += value
        elif value < -limit:
            total -= tl.sqrt(-value)
        else:
            total = total * 2
        i += 1
    for j in tl.static_range(3):
        total += j
    for j in range(n, 0, -1):
        for step in range(j):
            total += step
    tl.store(out, total)


@triton.jit
def early_return(x, out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    if tl.load(x + pid) == 0.0:
        tl.store(out + pid, 1.0)
        return
    tl.store(out + pid, 2.0)


@triton.jit(noinline=True)
def _twice(value, count):
    return value * 2, count + 1


@triton.jit
def calls(x, out, N: tl.constexpr):
    value, count = _twice(tl.load(x), tl.program_id(0))
    value, count = _twice(value, count)
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * value + count)


@triton.jit
def prints_and_asserts(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.device_print('"quoted" #blocked = {x}, \\ 100% ', value, hex=True)
    tl.device_assert(value < 10, "too large → }> loc(x)")
    tl.static_assert(N > 1)
    tl.assume(tl.program_id(0) < 7)
    tl.store(out + i, value)


@triton.jit
def inline_assembly(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    low, high = tl.inline_asm_elementwise(
        asm="""
        {
            // "two" results, <{braces}> and a tab:\t
            .reg .b32 t;
            add.u32 t, $2, 1;
            mov.b32 $0, t;
            shl.b32 $1, t, 16;
        }
        """,
        constraints="=r,=r,r",
        args=[tl.load(x + i)],
        dtype=(tl.int32, tl.int32),
        is_pure=True,
        pack=1,
    )
    tl.store(out + i, low ^ high)


@triton.jit
def library_math(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(out + i, libdevice.tanh(value) + tl.erf(value) + tl.math.log2(tl.abs(value)) + tl.cos(value))
    tl.store(out + i, tl.math.div_rn(value, 3.0) + tl.math.umulhi(i, i).to(tl.float32))


@triton.jit
def _mix(a, b):
    if a > b:
        return a - b
    return a + b


@triton.jit
def mapped(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(_mix, tl.load(x + i), tl.load(out + i)))


CASES = [
    Case(loops_and_branches, "*fp32 *fp32 i32 fp32"),
    Case(early_return, "*fp32 *fp32 i32"),
    Case(calls, "*fp32 *fp32", {"N": 128}),
    Case(prints_and_asserts, "*fp32 *fp32", {"N": 128}, {"debug": True}),
    Case(inline_assembly, "*i32 *i32", {"N": 128}, targets=NVIDIA),
    Case(library_math, "*fp32 *fp32", {"N": 256}),
    Case(mapped, "*i32 *i32", {"N": 128}),
]
