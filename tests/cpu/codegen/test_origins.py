"""LLVM IR says which lines code came from, in comments: links for people, and nothing in the machine code."""

import re

import numpy as np
import triton
import triton.language as tl

import tileprobe
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.views.html.levels import read_level

COMMENT = re.compile(r'^ *; from "[^\n]*\n', re.MULTILINE)


@triton.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    for _ in range(n):
        v = v * 1.5 + tl.sum(v, 0)
    tl.store(out + at, v, mask=at < n)


def code():
    x, out = (tileprobe.array(np.ones(256, np.float32)) for _ in range(2))
    with tileprobe.use("cpu"):
        return scaled[(1,)](x, out, 256, BLOCK=256)


def test_comments_change_no_code():
    text = code().asm["llir"]
    plain, count = COMMENT.subn("", text)
    assert count > 5
    assert compile_ir(text) == compile_ir(plain)


def test_instructions_belong_to_the_line_they_came_from():
    kernel = code()
    first = scaled.starting_line_number
    lines: dict[int, list[str]] = {}
    for line, places in read_level(kernel.asm["llir"]):
        for _, number in places:
            lines.setdefault(number - first, []).append(line)
    product, store = "\n".join(lines[5]), "\n".join(lines[6])
    assert "1.5" in product or "0x3ff8" in product
    assert "store <" in store
    assert "store <" not in "\n".join(lines[2])
    assert not any("; from" in line for line, _ in read_level(kernel.asm["llir"]))
