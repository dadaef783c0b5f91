"""`python -m fuzz.cubins --count N --seed S`: damaged cubins, decoded and, where that succeeds, run on simulated GPUs.

Bytes of kernels for sm_80 and sm_90 are changed, cut off, doubled, or exchanged, in the tables of the file and in the
code. Each must be refused with an error of ours, end with a fault of the kernel, or run to its end; each case is run in
a process of its own crew, so that one that crashes is counted and named.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tileprobe.errors import TileProbeError

_STEPS = 200_000  # instructions before a program is taken for endless
_CREW = 25  # cases of a process


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    total = tl.sum(v * v, 0)
    for k in range(4):
        v = v * 0.5 + tl.sqrt(total + k)
    tl.store(out + i, v, mask=i < n)


def cubins() -> dict[int, tuple[bytes, int]]:
    """By architecture: a kernel, and its shared memory."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    made = {}
    for arch in (80, 90):
        source = ASTSource(kernel, {"x": "*fp32", "out": "*fp32", "n": "i32"}, {"BLOCK": 256})
        found = triton.compile(source, target=GPUTarget("cuda", arch, 32))
        made[arch] = found.asm["cubin"], found.metadata.shared
    return made


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """A cubin that somebody has tampered with."""
    changed = bytearray(data)
    kind = int(random.integers(0, 6))
    if kind == 0:
        return bytes(changed[: random.integers(0, len(changed))])
    if kind == 1:  # a piece of it stands elsewhere, too
        size = int(random.integers(1, 64))
        source, target = random.integers(0, len(changed) - size, 2)
        changed[target : target + size] = changed[source : source + size]
        return bytes(changed)
    at, end = 0, len(changed)
    if kind in (2, 3, 4):  # in the code, which is what is executed
        at = data.find(b".text")  # names come first; the code lies behind them
        at = max(0, at)
    for place in random.integers(at, end, int(random.integers(1, 6))):
        changed[place] = (
            changed[place] ^ (1 << random.integers(0, 8)) if kind == 2 else random.integers(0, 256)
        )
    return bytes(changed)


def attempt(data: bytes, arch: int, shared: int) -> str:
    """How a cubin ended: refused, fault, finished; anything else is raised."""
    from tileprobe.targets.simgpu.blocks import image
    from tileprobe.targets.simgpu.errors import KernelFault
    from tileprobe.targets.simgpu.execute import execute
    from tileprobe.targets.simgpu.program import _decode, cubins

    x, out = np.ones(256, np.float32), np.zeros(256, np.float32)
    try:
        found = cubins.read(data)
        if found.arch != arch:
            return "refused"
        program = _decode(data, found)
        memory = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in (x, out)]
        size = max([0, *(p.offset + p.size for p in found.parameters)])
        values = np.zeros(max(size, 40), np.uint8)
        values[:20].view(np.uint32)[:] = [*np.array([m[0] for m in memory], np.uint64).view(np.uint32), 256]
        made = image(program, (1, 1, 1), min(found.threads or 128, 1024), shared, bytes(values), memory, 1)
        execute(made, (1, 1, 1), 1, _STEPS, 1)
    except KernelFault:
        return "fault"
    except TileProbeError:
        return "refused"
    return "finished"


def case(seed: int, found: dict[int, tuple[bytes, int]]) -> str:
    random = np.random.default_rng(seed)
    arch = (80, 90)[seed % 2]
    data, shared = found[arch]
    with contextlib.redirect_stdout(io.StringIO()):
        return attempt(damaged(data, random), arch, shared)


def _crew(seeds: range, found: dict[int, tuple[bytes, int]], answers: Any) -> None:
    for seed in seeds:
        answers.put((seed, "begun"))
        try:
            answers.put((seed, case(seed, found)))
        except BaseException as error:
            answers.put((seed, f"{type(error).__name__}: {error}"))


def campaign(seeds: range) -> Iterator[tuple[int, str]]:
    """(seed, how it ended) of all cases."""
    found, rest = cubins(), seeds
    context = multiprocessing.get_context("fork")
    while rest:
        answers = context.SimpleQueue()
        work = context.Process(target=_crew, args=(rest[:_CREW], found, answers))
        work.start()
        work.join(_CREW * 60)
        if work.is_alive():
            work.kill()
            work.join()
        ended: dict[int, str] = {}
        while not answers.empty():
            seed, how = answers.get()
            ended[seed] = how
        done = len(ended)
        for seed, how in ended.items():
            yield seed, f"crash or hang (status {work.exitcode})" if how == "begun" else how
        rest = rest[max(done, 1) :]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.cubins", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000, help="how many cases (2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    args = parser.parse_args()
    from tileprobe.targets.simgpu.engine.table import table

    table()  # compiled before processes are made
    count: Counter[str] = Counter()
    wrong = 0
    for seed, how in campaign(range(args.seed, args.seed + args.count)):
        known = how in ("refused", "fault", "finished")
        count[how if known else "wrong"] += 1
        if not known:
            wrong += 1
            print(f"seed {seed}: {how}", flush=True)
    print(", ".join(f"{number} {how}" for how, number in sorted(count.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
