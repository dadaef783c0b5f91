"""Matrix kernels for the tests of the bridge: pipelined, persistent, specialised, scaled, descriptors."""

import triton
import triton.language as tl
from bridge_stages import NVIDIA, Case


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_block = a + rows[:, None] * k + inner[None, :]
    b_block = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for step in tl.range(0, k, BK, num_stages=3):
        left = tl.load(a_block, mask=inner[None, :] < k - step, other=0.0)
        right = tl.load(b_block, mask=inner[:, None] < k - step, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        a_block += BK
        b_block += BK * n
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=mask)


@triton.jit
def matmul_i8(a, b, c, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    block = i[:, None] * BLOCK + i[None, :]
    tl.store(c + block, tl.dot(tl.load(a + block), tl.load(b + block), out_dtype=tl.int32))


@triton.jit
def descriptor_matmul(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALIZE: tl.constexpr
):
    a_desc = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    b_desc = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    c_desc = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    total = tl.zeros([BM, BN], tl.float32)
    for step in tl.range(0, k, BK, warp_specialize=SPECIALIZE):
        total = tl.dot(a_desc.load([row, step]), b_desc.load([column, step]).T, total)
    c_desc.store([row, column], total.to(tl.float16))


@triton.jit
def persistent_matmul(a_desc, b_desc, c_desc, m, n, k, SPECIALIZE: tl.constexpr):
    BM: tl.constexpr = a_desc.block_shape[0]
    BN: tl.constexpr = b_desc.block_shape[0]
    BK: tl.constexpr = a_desc.block_shape[1]
    across = tl.cdiv(n, BN)
    tiles = tl.cdiv(m, BM) * across
    for tile in tl.range(
        tl.program_id(0), tiles, tl.num_programs(0), flatten=True, warp_specialize=SPECIALIZE
    ):
        row = tile // across * BM
        column = tile % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        for step in range(0, k, BK):
            total = tl.dot(a_desc.load([row, step]), b_desc.load([column, step]).T, total)
        c_desc.store([row, column], total.to(tl.float16))


@triton.jit
def descriptor_rows(x_desc, out_desc, index, N: tl.constexpr):
    rows = tl.load(index + tl.arange(0, N))
    out_desc.scatter(x_desc.gather(rows, 0), rows, 0)
    out_desc.atomic_add([0, 0], x_desc.load([0, 0]))


@triton.jit
def scaled_dot(a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    packed = tl.arange(0, K // 2)
    groups = tl.arange(0, K // 32)
    left = tl.load(a + i[:, None] * (K // 2) + packed[None, :])
    left_scale = tl.load(a_scale + i[:, None] * (K // 32) + groups[None, :])
    right = tl.load(b + tl.arange(0, K)[:, None] * N + j[None, :])
    right_scale = tl.load(b_scale + j[:, None] * (K // 32) + groups[None, :])
    total = tl.dot_scaled(left, left_scale, "e2m1", right, right_scale, "e5m2")
    tl.store(c + i[:, None] * N + j[None, :], total)


_TILE = {"BM": 128, "BN": 128, "BK": 64}
_DESCRIPTORS = "tensordesc<fp16[128,64]> tensordesc<fp16[128,64]> tensordesc<fp16[128,128]>"

CASES = [
    Case(matmul, "*fp16 *fp16 *fp16 i32 i32 i32", {**_TILE, "PRECISION": None}, {"num_warps": 8}),
    Case(
        matmul,
        "*fp32 *fp32 *fp32 i32 i32 i32",
        {"BM": 64, "BN": 64, "BK": 32, "PRECISION": "ieee"},
        label="matmul_ieee",
    ),
    Case(
        matmul,
        "*fp32 *fp32 *fp32 i32 i32 i32",
        {"BM": 64, "BN": 64, "BK": 32, "PRECISION": "tf32x3"},
        targets=NVIDIA,
        label="matmul_tf32x3",
    ),
    Case(
        matmul,
        "*fp8e5 *fp8e5 *bf16 i32 i32 i32",
        {**_TILE, "PRECISION": None},
        targets=("sm90", "sm100"),
        label="matmul_fp8",
    ),
    Case(matmul_i8, "*i8 *i8 *i32", {"BLOCK": 64}),
    Case(descriptor_matmul, "*fp16 *fp16 *fp16 i32 i32 i32", {**_TILE, "SPECIALIZE": False}),
    Case(
        descriptor_matmul,
        "*fp16 *fp16 *fp16 i32 i32 i32",
        {**_TILE, "SPECIALIZE": True},
        targets=("sm90", "sm100"),
        label="specialised_matmul",
        specialised=True,
    ),
    Case(persistent_matmul, f"{_DESCRIPTORS} i32 i32 i32", {"SPECIALIZE": False}, targets=("sm90", "sm100")),
    Case(
        persistent_matmul,
        f"{_DESCRIPTORS} i32 i32 i32",
        {"SPECIALIZE": True},
        targets=("sm100",),
        label="specialised_persistent_matmul",
        specialised=True,
    ),
    Case(
        descriptor_rows, "tensordesc<fp32[1,64]> tensordesc<fp32[1,64]> *i32", {"N": 32}, targets=("sm100",)
    ),
    Case(scaled_dot, "*u8 *u8 *fp8e5 *u8 *fp32", {"M": 128, "N": 128, "K": 128}),
]
