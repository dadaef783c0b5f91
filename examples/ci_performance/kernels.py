"""The kernels whose performance is kept: a softmax over rows, and a product of matrices that is tuned."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + at, mask=at < columns, other=float("-inf"))
    raised = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + at, raised / tl.sum(raised, 0), mask=at < columns)


@triton.autotune(
    [triton.Config({"TILE": tile}, num_warps=warps) for tile in (32, 64) for warps in (2, 4)],
    key=["size"],
)
@triton.jit
def product(a, b, c, size, TILE: tl.constexpr):
    """Square matrices whose sides are multiples of the tile."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inner = tl.arange(0, 32)
    total = tl.zeros((TILE, TILE), tl.float32)
    for k in range(0, size, 32):
        left = tl.load(a + rows[:, None] * size + k + inner[None, :])
        right = tl.load(b + (k + inner[:, None]) * size + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))
