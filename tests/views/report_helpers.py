"""A function of another file that a kernel calls."""

import triton
import triton.language as tl


@triton.jit
def outside(v):
    return tl.log(v + 2.0)
