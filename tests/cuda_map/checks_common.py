"""Kernels and helpers of the checks."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + 1, at < n)


@triton.jit
def persistent(out, n, PROGRAMS: tl.constexpr):
    for i in range(tl.program_id(0), n, PROGRAMS):
        tl.store(out + i, tl.program_id(0))


def raises(kind, words, do):
    """`do` raises an error of that kind with these words in it."""
    with pytest.raises(kind, match=words):
        do()


def captured(work):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = work()
    return graph, made


def viewing(namespace):
    """An operator of a library's own that gives a view of its argument, with a kernel for the CPU only."""
    library = torch.library.Library(f"checks_{namespace}", "DEF")
    library.define("flat(Tensor(a) x) -> Tensor(a)")
    library.impl("flat", lambda x: x.view(-1), "CPU")
    kept.append(library)
    return getattr(torch.ops, f"checks_{namespace}").flat


kept = []  # a library lives as long as its operators
