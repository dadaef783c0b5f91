"""A masked store of narrowed values writes no more than its lanes.

LLVM folds a `trunc` and a masked store into one truncating store; where the mask is a constant with a single lane
on, its AVX-512 code then stores that lane before it was narrowed: bytes behind the lane are overwritten. Few
machines have AVX-512, so the code made for one is read instead of run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cpu_harness import INTERPRETED, kernel, storage
from right_harness import ALL_WIDTHS, run

MASKS = {
    "first": ("i < 1", lambda i: i < 1),
    "third": ("i == 3", lambda i: i == 3),
    "given": ("i < n", lambda i: i < 1),  # Triton compiles a 1 into the kernel
    "two": ("i < 2", lambda i: i < 2),
}
TYPES = [("int32", "int8"), ("int32", "int16"), ("int64", "int8"), ("int64", "int32"), ("int16", "int8")]
SIZES = (8, 16, 32, 64)
# Bytes that a store of a scalar writes.
SCALAR_STORES = {
    **dict.fromkeys(("movb", "vpextrb"), 1),
    **dict.fromkeys(("movw", "vpextrw"), 2),
    **dict.fromkeys(("movl", "vmovd", "vpextrd", "vmovss", "vextractps"), 4),
    **dict.fromkeys(("movq", "vmovq", "vpextrq", "vmovsd", "vmovlps", "vmovlpd"), 8),
}


def source(mask, target):
    return f"""
@triton.jit
def kernel(X, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.load(X + i).to(tl.{target}), mask={mask})
"""


@pytest.mark.parametrize("machine", ALL_WIDTHS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("wide", "narrow"), TYPES)
@pytest.mark.parametrize("size", [8, 64])
def test_what_is_written(machine, mask, wide, narrow, size):
    text, condition = MASKS[mask]
    m = condition(np.arange(size))
    x = np.random.default_rng(1).integers(-(1 << 14), 1 << 14, size).astype(wide)
    # The last lane that is on ends the array: a byte too many is on the guard page.
    out = np.full(np.flatnonzero(m)[-1] + 1, 7, narrow)
    got = run(kernel(source(text, narrow)), x, out, 1, N=size, machine=machine)[1]
    assert (got == np.where(m, x.astype(narrow), 7)[: len(out)]).all()


COMPILE = """
import json, sys
import numpy as np
from cpu_harness import Buffer, kernel
from tileprobe.targets.cpu import loader

for source, wide, narrow, size in json.load(sys.stdin):
    arguments = Buffer(np.zeros(size), wide), Buffer(np.zeros(size), narrow), 1
    made = kernel(source).warmup(*arguments, grid=(1,), N=size)
    print(json.dumps(loader.assembly(made.asm["llir"])))
"""


def assembly_of(cases, cpu):
    """What LLVM makes of each case for a CPU that this machine need not be."""
    paths = [str(Path(__file__).parents[1]), *sys.path]
    environment = {
        **os.environ,
        "TILEPROBE_CPU": cpu,
        "TRITON_DEFAULT_BACKEND": "cpu",
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
    }
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input=json.dumps(cases),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def wide_stores(assembly, size):
    """Stores to other memory than the stack that write more than `size` bytes whatever a mask says."""
    found = []
    for line in assembly.splitlines():
        match = re.match(r"\s+(\w+)\s+(.*,\s*-?\w*\((%\w+)[^)]*\))\s*(#.*)?$", line)
        if match is None or match[3] in ("%rsp", "%rbp"):
            continue
        scalar = SCALAR_STORES.get(match[1])
        vector = match[1].startswith(("vmovup", "vmovdq", "vmovap", "vpmov"))
        if (scalar is not None and scalar > size) or vector:
            found.append(line.strip())
    return found


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("cpu", ["x86-64-v4", "x86-64-v3"])
def test_code_for_another_machine(mask, cpu):
    if os.uname().machine != "x86_64":
        pytest.skip("code for x86-64")
    types = [*TYPES, ("float32", "bfloat16")]  # a bfloat16 is the upper half of a float, narrowed too
    cases = [(source(MASKS[mask][0], narrow), wide, narrow, size) for wide, narrow in types for size in SIZES]
    found = {}
    for (_, wide, narrow, size), text in zip(cases, assembly_of(cases, cpu)):
        stores = wide_stores(text, storage(narrow).itemsize)
        if stores:
            found[wide, narrow, size] = stores
    assert not found
