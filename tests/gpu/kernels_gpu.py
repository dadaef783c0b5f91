"""More kernels for the tests of GPU probes."""

import triton
import triton.language as tl
from bridge_stages import Case


@triton.jit
def nested_loops(x, out, rows, columns, BLOCK: tl.constexpr):
    """A loop in a loop, and a store in the outer one."""
    i = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.zeros([BLOCK], tl.float32)
        for column in range(0, columns, BLOCK):
            total += tl.load(x + row * columns + column + i)
        tl.store(out + row * BLOCK + i, total)


CASES = [Case(nested_loops, "*fp32 *fp32 i32 i32", {"BLOCK": 128})]
