"""Small kernels that use the instructions of the engine's families, with their answers in NumPy.

`CASES[name]` runs one on the machine in use and answers (what it left, what it should have left), lists of arrays.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

import tileprobe

CASES = {}
RANDOM = np.random.default_rng(7)


def case(*modules, machines=("sim:a100", "sim:h100")):
    def keep(function):
        CASES[function.__name__] = (function, modules, machines)
        return function

    return keep


def array(values):
    return tileprobe.array(values)


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=3)
    tl.store(out + i, v, mask=i < n - 2)
    tl.store(out + 2 * BLOCK + i, v.to(tl.int32), mask=i < n)


@case("memory", "control")
def widths():
    """Loads and stores of all widths, signed and not, whole and masked; the last elements are not touched."""
    left, right = [], []
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64):
        info = np.iinfo(dtype)
        values = RANDOM.integers(
            max(info.min, -(2**31)), min(info.max, 2**31 - 1), 128, endpoint=True
        ).astype(dtype)
        out = array(np.full(256, 5, dtype))
        copy_kernel[(2,)](array(values), out, 123, 64, num_warps=1)
        wanted = np.full(256, 5, dtype)
        wanted[:121] = values[:121]
        wanted[128 : 128 + 123] = values[:123].astype(np.int32).astype(dtype)
        left.append(out.numpy().copy())
        right.append(wanted)
    return left, right


@triton.jit
def turn_kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + j[:, None] * M + i[None, :], tl.trans(v))


@case("memory", "barriers", "addresses", "copies", "control")
def turned():
    """Through shared memory, in several widths."""
    left, right = [], []
    for dtype, shape in (
        (np.int8, (32, 64)),
        (np.float16, (32, 32)),
        (np.float32, (16, 64)),
        (np.int64, (16, 32)),
    ):
        x = RANDOM.integers(-100, 100, shape).astype(dtype)
        out = array(np.zeros(shape[::-1], dtype))
        turn_kernel[(1,)](array(x), out, *shape, num_warps=2)
        left.append(out.numpy().copy())
        right.append(x.T)
    return left, right


@triton.jit
def reduce_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + 0, tl.sum(v, 0))
    tl.store(out + 1, tl.max(v, 0))
    tl.store(out + 2, tl.min(v, 0))
    tl.store(out + 3, tl.xor_sum(v, 0))
    tl.store(out + 4, tl.argmax(v, 0).to(v.dtype))
    tl.store(out + 5, tl.reduce_or(v, 0))
    tl.store(out + 8 + i, tl.cumsum(v, 0))
    tl.store(out + 8 + N + i, tl.cumsum(v, 0, reverse=True))
    tl.store(out + 8 + 2 * N + i, tl.flip(v, 0))


@case("exchange", "memory", "barriers", "fields")
def reduced():
    """Shuffles up, down, across; reductions of a warp; votes."""
    left, right = [], []
    for dtype, n in ((np.int32, 128), (np.uint32, 64), (np.int64, 64), (np.int32, 32)):
        x = RANDOM.integers(0 if dtype is np.uint32 else -1000, 1000, n).astype(dtype)
        out = array(np.zeros(8 + 3 * n, dtype))
        reduce_kernel[(1,)](array(x), out, n, num_warps=2 if n > 32 else 1)
        wanted = np.zeros(8 + 3 * n, dtype)
        wanted[:6] = [
            x.sum(),
            x.max(),
            x.min(),
            np.bitwise_xor.reduce(x),
            x.argmax(),
            np.bitwise_or.reduce(x),
        ]
        wanted[8 : 8 + n], wanted[8 + n : 8 + 2 * n] = x.cumsum(), x[::-1].cumsum()[::-1]
        wanted[8 + 2 * n :] = x[::-1]
        left.append(out.numpy().copy())
        right.append(wanted)
    return left, right


_SHUFFLES = {
    "up.b32 r, $1, 3, 0x0": lambda x: np.where(np.arange(32) >= 3, np.roll(x, 3), x),
    "up.b32 r, $1, 5, 0x1000": lambda x: np.where(np.arange(32) % 16 >= 5, np.roll(x, 5), x),
    "down.b32 r, $1, 4, 0x1f": lambda x: np.where(np.arange(32) + 4 <= 31, np.roll(x, -4), x),
    "down.b32 r, $1, 2, 0x1807": lambda x: np.where(np.arange(32) % 8 + 2 <= 7, np.roll(x, -2), x),
    "bfly.b32 r, $1, 9, 0x1f": lambda x: x[np.arange(32) ^ 9],
    "bfly.b32 r, $1, 3, 0x1c03": lambda x: x[np.arange(32) ^ 3],
    "idx.b32 r, $1, 6, 0x1f": lambda x: np.full(32, x[6]),
    "idx.b32 r, $1, 2, 0x181f": lambda x: x[np.arange(32) // 8 * 8 + 2],
}
_VOTES = {
    "{ .reg .pred p; setp.gt.s32 p, $1, 0; vote.sync.ballot.b32 $0, p, 0xffffffff; }":
        lambda x: np.full(32, sum(1 << n for n in range(32) if x[n] > 0)),
    "{ .reg .pred p; .reg .pred q; setp.gt.s32 p, $1, 0; vote.sync.any.pred q, p, 0xffffffff; selp.b32 $0, 7, 9, q; }":
        lambda x: np.full(32, 7 if (x > 0).any() else 9),
    "{ .reg .pred p; .reg .pred q; setp.gt.s32 p, $1, 0; vote.sync.all.pred q, p, 0xffffffff; selp.b32 $0, 7, 9, q; }":
        lambda x: np.full(32, 7 if (x > 0).all() else 9),
    "{ .reg .pred p; .reg .pred q; setp.gt.s32 p, $1, 0; vote.sync.uni.pred q, p, 0xffffffff; selp.b32 $0, 7, 9, q; }":
        lambda x: np.full(32, 7 if (x > 0).all() or (x <= 0).all() else 9),
    "redux.sync.min.s32 $0, $1, 0xffffffff;": lambda x: np.full(32, x.min()),
    "redux.sync.max.s32 $0, $1, 0xffffffff;": lambda x: np.full(32, x.max()),
    "redux.sync.min.u32 $0, $1, 0xffffffff;": lambda x: np.full(32, x.view(np.uint32).min()).view(np.int32),
    "redux.sync.max.u32 $0, $1, 0xffffffff;": lambda x: np.full(32, x.view(np.uint32).max()).view(np.int32),
    "redux.sync.add.s32 $0, $1, 0xffffffff;": lambda x: np.full(32, x.sum()),
    "redux.sync.and.b32 $0, $1, 0xffffffff;": lambda x: np.full(32, np.bitwise_and.reduce(x)),
    "redux.sync.or.b32 $0, $1, 0xffffffff;": lambda x: np.full(32, np.bitwise_or.reduce(x)),
    "redux.sync.xor.b32 $0, $1, 0xffffffff;": lambda x: np.full(32, np.bitwise_xor.reduce(x)),
    "match.any.sync.b32 $0, $1, 0xffffffff;":
        lambda x: np.array([sum(1 << k for k in range(32) if x[k] == x[n]) for n in range(32)]),
}  # fmt: skip


@triton.jit
def assembly_kernel(x, out, TEXTS: tl.constexpr):
    i = tl.arange(0, 32)
    v = tl.load(x + i)
    for n in tl.static_range(len(TEXTS)):
        got = tl.inline_asm_elementwise(TEXTS[n], "=r,r", [v], dtype=tl.int32, is_pure=False, pack=1)
        tl.store(out + 32 * n + i, got)


@case("exchange")
def between_lanes():
    """Every shuffle with segments and limits, votes, reductions of a warp."""
    left, right = [], []
    texts = {
        f"{{ .reg .b32 r; shfl.sync.{t}, 0xffffffff; mov.b32 $0, r; }}": f for t, f in _SHUFFLES.items()
    } | _VOTES
    for values in (RANDOM.integers(-5, 5, 32), np.arange(1, 33) * 77, -np.arange(32)):
        x = values.astype(np.int32)
        out = array(np.zeros(32 * len(texts), np.int32))
        assembly_kernel[(1,)](array(x), out, tuple(texts), num_warps=1)
        left.append(out.numpy().copy())
        answers = [np.asarray(answer(x)).astype(np.int64) for answer in texts.values()]
        right.append(np.concatenate(answers).astype(np.uint32).view(np.int32))
    return left, right


@triton.jit
def atomic_kernel(x, out, old, N: tl.constexpr, OPS: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    mask = i != 5
    for n in tl.static_range(len(OPS)):
        place = out + 4 * n + i % 4
        if OPS[n] == "add":
            before = tl.atomic_add(place, v, mask=mask)
        elif OPS[n] == "max":
            before = tl.atomic_max(place, v, mask=mask)
        elif OPS[n] == "min":
            before = tl.atomic_min(place, v, mask=mask)
        elif OPS[n] == "and":
            before = tl.atomic_and(place, v, mask=mask)
        elif OPS[n] == "or":
            before = tl.atomic_or(place, v, mask=mask)
        elif OPS[n] == "xor":
            before = tl.atomic_xor(place, v, mask=mask)
        else:
            before = tl.atomic_xchg(place, v, mask=mask)
        tl.store(old + N * n + i, before, mask=mask)


_ATOMIC = {
    "add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "xchg": lambda a, b: b,
}  # fmt: skip
_ATOMIC_OF = {np.float32: ("add", "xchg"), np.float16: ("add",)}


@case("atomics", "addresses")
def atomics():
    left, right = [], []
    for dtype in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float16):
        ops = _ATOMIC_OF.get(dtype, tuple(_ATOMIC))
        whole = np.dtype(dtype).kind in "iu"
        low, high = (np.iinfo(dtype).min // 4, np.iinfo(dtype).max // 4) if whole else (-9, 9)
        x = RANDOM.integers(low, high, 32).astype(dtype)
        memory, before = np.tile(x[8:12], len(ops)), np.zeros((len(ops), 32), dtype)
        out, old = array(memory.copy()), array(before.copy())
        atomic_kernel[(1,)](array(x), out, old, 32, ops, num_warps=1)
        with np.errstate(over="ignore"):
            for k, n in np.ndindex(len(ops), 32):
                if n != 5:
                    place = 4 * k + n % 4
                    before[k, n], memory[place] = memory[place], _ATOMIC[ops[k]](memory[place], x[n])
        left += [out.numpy().copy(), old.numpy().copy()]
        right += [memory, before]
    return left, right


@triton.jit
def half_atomic_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out + i, tl.load(x + i))


@case("atomics")
def half_atomics():
    """Two halves, or two bfloat16, at once; sums that are rounded, subnormal, infinite."""
    torch = __import__("torch")
    left, right = [], []
    for dtype in (torch.float16, torch.bfloat16):
        x, y = (
            torch.from_numpy(RANDOM.standard_normal(64) * 2.0 ** RANDOM.integers(-9, 9, 64)) for _ in range(2)
        )
        x, y = x.to(dtype), y.to(dtype)
        x[:4], y[:4] = torch.tensor([60000.0, 6e-8, -6e-6, 1.0]), torch.tensor([60000.0, 1.2e-7, 1e-6, -1.0])
        out = y.clone()
        half_atomic_kernel[(1,)](x, out, 64, num_warps=1)
        left.append(out.view(torch.int16).numpy().copy())
        right.append((x.double() + y.double()).to(dtype).view(torch.int16).numpy())
    return left, right


@triton.jit
def swap_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + N + i, tl.atomic_cas(out + i, tl.load(x + i), (i + 100).to(out.dtype.element_ty)))


@case("atomics")
def compared_and_swapped():
    left, right = [], []
    for dtype in (np.int32, np.int64):
        x, start = (RANDOM.integers(0, 3, 64).astype(dtype) for _ in range(2))
        out = array(np.concatenate([start, np.zeros(64, dtype)]))
        swap_kernel[(1,)](array(x), out, 64, num_warps=1)
        left.append(out.numpy().copy())
        right.append(np.concatenate([np.where(start == x, np.arange(64) + 100, start), start]).astype(dtype))
    return left, right


@triton.jit
def histogram_kernel(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@case("atomics", "memory", "barriers")
def histogram():
    """Atomics on shared memory."""
    x, out = RANDOM.integers(0, 16, 256).astype(np.int32), array(np.zeros(16, np.int32))
    histogram_kernel[(1,)](array(x), out, 256, 16, num_warps=2)
    return [out.numpy().copy()], [np.bincount(x, minlength=16)]


@triton.jit
def convert_kernel(x, out, N: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for n in tl.static_range(len(TO)):
        tl.store(out + N * n + i, v.to(TO[n]).to(out.dtype.element_ty))


_FLOATS = np.array(
    [0.0, -0.0, 0.4, 0.5, 0.6, 1.0, 1.5, 2.5, -0.5, -1.5, -2.5, -0.7, 100.4, -100.6, 126.9, 127.0, -127.5, 3.99, -3.99,
     7.0, 63.5, -63.5, 99.99, 1e-3, -1e-3, 2.0, -2.0, 17.25, -17.75, 31.5, 55.0, -55.0], np.float64,
)  # fmt: skip


@case("scalar")
def converted():
    """Floats to integers and back, in all widths."""
    left, right = [], []
    signed = {np.int8: tl.int8, np.int16: tl.int16, np.int32: tl.int32, np.int64: tl.int64}
    unsigned = {np.uint32: tl.uint32, np.uint64: tl.uint64}
    for source in (np.float32, np.float64):
        for kinds, values in ((signed, _FLOATS), (unsigned, np.abs(_FLOATS))):
            x, out = values.astype(source), array(np.zeros((len(kinds), 32), np.int64))
            convert_kernel[(1,)](array(x), out, 32, tuple(kinds.values()), num_warps=1)
            left.append(out.numpy().copy())
            right.append(np.array([np.trunc(x).astype(target).astype(np.int64) for target in kinds]))
    for source in (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(source)
        x = RANDOM.integers(info.min, info.max, 32, dtype=source, endpoint=True)
        x[:3] = info.min, info.max, 1
        out = array(np.zeros((2, 32), np.float64))
        convert_kernel[(1,)](array(x), out, 32, (tl.float32, tl.float64), num_warps=1)
        left.append(out.numpy().copy())
        right.append(np.array([x.astype(np.float32), x.astype(np.float64)]))
    return left, right


@triton.jit
def round_kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v, w = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.floor(v))
    tl.store(out + N + i, tl.ceil(v))
    tl.store(out + 2 * N + i, tl.div_rn(v, w) if v.dtype == tl.float32 else v / w)
    tl.store(out + 3 * N + i, tl.sqrt_rn(tl.abs(v)) if v.dtype == tl.float32 else tl.sqrt(tl.abs(v)))


@case("scalar", "control")
def rounded():
    """Floors, quotients and roots that are rounded to the nearest, by way of directed steps and slow paths."""
    left, right = [], []
    for dtype in (np.float32, np.float64):
        x = np.concatenate(
            [_FLOATS, RANDOM.standard_normal(32) * 2.0 ** RANDOM.integers(-60, 60, 32)]
        ).astype(dtype)
        y = (RANDOM.standard_normal(64) * 2.0 ** RANDOM.integers(-60, 60, 64)).astype(dtype)
        if dtype is np.float32:
            x[40:44], y[40:44] = 1e-39, [1e-38, 3.0, 1e20, 1e-39]
        out = array(np.zeros(256, dtype))
        round_kernel[(1,)](array(x), array(y), out, 64, num_warps=1)
        left.append(out.numpy().copy())
        whole = np.where(np.abs(x) < 1e-38, np.copysign(0, x), x)  # subnormal numbers are flushed
        right.append(np.concatenate([np.floor(whole), np.ceil(whole), x / y, np.sqrt(np.abs(x))]))
    return left, right


@triton.jit
def function_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=r,r", [v], tl.float32, True, 1))
    tl.store(
        out + N + i, tl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=r,r", [v], tl.float32, True, 1)
    )
    tl.store(
        out + 2 * N + i, tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=r,r", [v], tl.float32, True, 1)
    )
    tl.store(
        out + 3 * N + i,
        tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=r,r", [v], tl.float32, True, 1),
    )


@case("scalar")
def functions():
    """To the errors of the PTX ISA: sin, cos 2**-20.5, lg2 2**-22, tanh 2**-11; compared in steps of these."""
    x, out = np.linspace(0.05, 3.1, 32).astype(np.float32), array(np.zeros(128, np.float32))
    function_kernel[(1,)](array(x), out, 32, num_warps=1)
    exact = np.concatenate([np.sin(x), np.cos(x), np.log2(x), np.tanh(x)]).astype(np.float64)
    found = out.numpy().astype(np.float64)
    allowed = np.repeat([2.0**-20, 2.0**-20, 2.0**-21, 2.0**-10], 32)
    return [np.where(np.abs(found - exact) <= allowed, exact, found)], [exact]


@triton.jit
def eight_kernel(x, out, back, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    small = tl.load(x + i).to(KIND)
    tl.store(out + i, small.to(tl.uint8, bitcast=True))
    tl.store(back + i, small.to(tl.float32))


@case("scalar", machines=("sim:h100",))
def eight_bits():
    """Floats of eight bits: all of them back, and rounding to them."""
    torch = __import__("torch")
    left, right = [], []
    for kind, form in ((tl.float8e4nv, torch.float8_e4m3fn), (tl.float8e5, torch.float8_e5m2)):
        x = (RANDOM.standard_normal(128) * 2.0 ** RANDOM.integers(-12, 7, 128)).astype(np.float32)
        x[:4] = 0.0, -0.0, 448.0, -1.75
        out, back = array(np.zeros(128, np.uint8)), array(np.zeros(128, np.float32))
        eight_kernel[(1,)](array(x), out, back, 128, kind, num_warps=1)
        wanted = torch.from_numpy(x).to(form)
        left += [out.numpy().copy(), back.numpy().copy()]
        right += [wanted.view(torch.uint8).numpy(), wanted.float().numpy()]
    return left, right


@triton.jit
def product_kernel(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEP: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, K, STEP):
        x = tl.load(a + i[:, None] * K + first + k[None, :], mask=first + k[None, :] < K, other=0.0)
        y = tl.load(b + (first + k[:, None]) * N + j[None, :])
        total = tl.dot(x, y, total)
    tl.store(out + i[:, None] * N + j[None, :], total.to(tl.float16))


@case("copies", "memory", "barriers", machines=("sim:a100",))
def product():
    """Asynchronous copies, matrices from shared memory, exchanged and not."""
    a, b = (RANDOM.integers(-3, 4, shape).astype(np.float16) for shape in ((16, 64), (64, 16)))
    out = array(np.zeros((16, 16), np.float16))
    product_kernel[(1,)](array(a), array(b), out, 16, 16, 64, 16, num_warps=1, num_stages=3)
    return [out.numpy().copy()], [(a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)]


@case("groups", "copies", "mbarriers", "bulk", machines=("sim:h100",))
def group_product():
    a, b = (RANDOM.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 64), (64, 16)))
    out = array(np.zeros((64, 16), np.float16))
    product_kernel[(1,)](array(a), array(b), out, 64, 16, 64, 64, num_warps=4, num_stages=1)
    return [out.numpy().copy()], [(a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)]


@triton.jit
def tile_kernel(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    for row in range(0, M, BM):
        for column in range(0, N, BN):
            target.store([row, column], source.load([row, column]) + 1)


@case("bulk", "mbarriers", machines=("sim:h100",))
def tiles():
    """Bulk copies whose last tiles reach beyond the tensor."""
    left, right = [], []
    for dtype, shape in ((np.float32, (12, 40)), (np.float16, (10, 72)), (np.int8, (9, 48))):
        x = RANDOM.integers(-50, 50, shape).astype(dtype)
        out = array(np.zeros(shape, dtype))
        tile_kernel[(1,)](array(x), out, *shape, 8, 32, num_warps=1)
        left.append(out.numpy().copy())
        right.append(x + dtype(1))
    return left, right


@triton.jit
def spill_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = a * a - tl.max(a, 0)
    tl.store(out + i, a * 3 + tl.min(b, 0))
    tl.store(out + N + i, b - tl.sum(a, 0))


@case("memory", "control")
def spilled():
    """So few registers that values go through local memory."""
    x, out = RANDOM.integers(-1000, 1000, 1024).astype(np.int32), array(np.zeros(2048, np.int32))
    spill_kernel[(1,)](array(x), out, 1024, num_warps=1, maxnreg=32)
    squares = x * x - x.max()
    return [out.numpy().copy()], [np.concatenate([x * 3 + squares.min(), squares - x.sum()]).astype(np.int32)]


@triton.jit
def divide_kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + N + i, a % b)
    k = tl.load(x + i) % 7
    while tl.max(k, 0) > 0:
        k = tl.maximum(k - 1, 0)
    tl.store(out + 2 * N + i, k)


@case("control")
def divided():
    """Subroutines that lanes enter one group after another."""
    a = RANDOM.integers(-(2**62), 2**62, 64)
    b = RANDOM.integers(1, 2**20, 64) * RANDOM.choice([1, -1], 64)
    b[::3] = RANDOM.integers(2**33, 2**40, 22)
    out = array(np.zeros(192, np.int64))
    divide_kernel[(1,)](array(a), array(b), out, 64, num_warps=1)
    quotient = np.array(
        [int(abs(int(p)) // abs(int(q))) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(a, b)]
    )
    return [out.numpy().copy()], [np.concatenate([quotient, a - quotient * b, np.zeros(64, np.int64)])]


def run(name):
    """What a case left, and what it should have left."""
    return CASES[name][0]()
