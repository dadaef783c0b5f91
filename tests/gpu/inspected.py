"""A script whose kernels are inspected: two launches of a product, one of a sum."""

import numpy as np
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def matmul(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros([BM, BN], tl.float32)
    for step in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + step + inner[None, :])
        right = tl.load(b + (step + inner[:, None]) * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


class Tensor:
    """What Triton needs of a tensor."""

    def __init__(self, array):
        self.array, self.dtype = array, {"float32": "fp32", "float16": "fp16"}[str(array.dtype)]

    def data_ptr(self):
        return self.array.ctypes.data // 16 * 16


x = Tensor(np.zeros(4096, np.float32))
add[(4,)](x, x, x, 4096, BLOCK=1024)
h = Tensor(np.zeros((512, 512), np.float16))
for _ in range(2):
    matmul[(1,)](h, h, h, 512, 512, BM=64, BN=64, BK=32, num_warps=4)
print("the script ran")
