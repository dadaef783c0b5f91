"""Small kernels for the tests of the bridge: element by element, memory, reductions, scans, conversions."""

import triton
import triton.language as tl
from bridge_stages import Case


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask, other=0.5)
    tl.store(out + offsets, total, mask=mask)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + offsets, mask=offsets < n, other=float("-inf"))
    exponentials = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * n + offsets, exponentials / tl.sum(exponentials, 0), mask=offsets < n)


@triton.jit
def layer_norm(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        mean += value
        square += value * value
    centre = tl.sum(mean) / n
    scale = tl.rsqrt(tl.sum(square) / n - centre * centre + eps)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n
        value = tl.load(x + row * n + offsets, mask=mask).to(tl.float32)
        value = (value - centre) * scale * tl.load(weight + offsets, mask=mask) + tl.load(
            bias + offsets, mask=mask
        )
        tl.store(out + row * n + offsets, value, mask=mask)


@triton.jit
def atomics(counts, sums, locks, keys, values, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    key = tl.load(keys + offsets, mask=mask, other=0)
    tl.atomic_add(counts + key, 1, mask=mask)
    tl.atomic_add(sums + key, tl.load(values + offsets, mask=mask), mask=mask, sem="relaxed", scope="cta")
    tl.atomic_max(counts + key, key, mask=mask, sem="release")
    tl.atomic_xchg(counts + key, key, mask=mask)
    while tl.atomic_cas(locks, 0, 1) == 1:
        pass
    tl.atomic_xchg(locks, 0)


@triton.jit
def _maximum_with_index(a, i, b, j):
    left = (a > b) | ((a == b) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def _affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def reduce_scan_sort(x, out, index, N: tl.constexpr):
    rows = tl.arange(0, N)
    grid = x + rows[:, None] * N + rows[None, :]
    values = tl.load(grid)
    best, where = tl.reduce((values, tl.broadcast_to(rows[None, :], [N, N])), 1, _maximum_with_index)
    tl.store(out + rows, best)
    tl.store(index + rows, where)
    factors, sums = tl.associative_scan((values, values), 0, _affine, reverse=True)
    tl.store(grid, tl.cumsum(factors, 1) + sums)
    tl.store(out + rows, tl.argmin(values, 0).to(tl.float32))
    tl.store(out + rows, tl.sort(best, descending=True))
    tl.store(index + rows, tl.histogram(where, N))
    tl.store(out + rows, tl.gather(best, where, 0))


@triton.jit
def shapes(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(x + N + i)
    pair = tl.join(a, b)
    left, right = tl.split(tl.reshape(tl.permute(tl.reshape(pair, [2, N // 2, 2]), [1, 2, 0]), [N, 2]))
    both = tl.cat(left, right)
    tl.store(out + tl.arange(0, 2 * N), both)
    tl.store(out + i, tl.where(i % 3 == 0, tl.fma(a, b, a), tl.clamp(a, -1.0, 1.0)))


@triton.jit
def constants(out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.full([N], float("-inf"), tl.float32))
    tl.store(out + i, tl.full([N], float("nan"), tl.float16).to(tl.float32))
    tl.store(out + i, tl.full([N], float("inf"), tl.bfloat16).to(tl.float32))
    tl.store(out + i, tl.full([N], -0.0, tl.float32))
    tl.store(out + i, tl.full([N], 1e-45, tl.float32))
    tl.store(out + i, tl.full([N], 0.1, tl.float64).to(tl.float32))
    tl.store(out + i, tl.full([N], float("-inf"), tl.float64).to(tl.float32))
    tl.store(out + i, tl.full([N], 0x7F800001, tl.int32).to(tl.float32, bitcast=True))
    tl.store(out + i, tl.full([N], -(2**63), tl.int64).to(tl.float32))
    tl.store(out, float("inf"))
    tl.store(out, 3.4028234663852886e38)


@triton.jit
def fp8_conversions(x, narrow, wide, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(narrow + i, value.to(tl.float8e5, fp_downcast_rounding="rtne"))
    tl.store(wide + i, tl.load(narrow + i).to(tl.float32) + tl.full([N], 448.0, tl.float8e5).to(tl.float32))
    tl.store(wide + i, value.to(tl.float16).to(tl.float32) + value.to(tl.int8).to(tl.float32))


@triton.jit
def random_dropout(x, out, seed, p, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    keep = tl.rand(seed, i) > p
    tl.store(
        out + i,
        tl.where(keep, tl.load(x + i, cache_modifier=".ca", eviction_policy="evict_first") / (1 - p), 0.0),
    )
    tl.store(out + i, tl.randn(seed, i), cache_modifier=".cs")


CASES = [
    Case(vector_add, "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}),
    Case(vector_add, "*bf16 *bf16 *bf16 i64", {"BLOCK": 256}, {"num_warps": 2}, label="vector_add_bf16"),
    Case(softmax, "*fp32 *fp16 i32", {"BLOCK": 1024}),
    Case(layer_norm, "*fp16 *fp32 *fp32 *fp16 i32 fp32", {"BLOCK": 1024}, {"num_warps": 8}),
    Case(atomics, "*i32 *fp32 *i32 *i32 *fp32 i32", {"BLOCK": 256}),
    Case(reduce_scan_sort, "*fp32 *fp32 *i32", {"N": 32}),
    Case(shapes, "*fp32 *fp32", {"N": 128}),
    Case(constants, "*fp32", {"N": 128}),
    Case(fp8_conversions, "*fp32 *fp8e5 *fp32", {"N": 256}),
    Case(random_dropout, "*fp32 *fp32 i32 fp32", {"N": 512}),
]
