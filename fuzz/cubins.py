"""`python -m fuzz.cubins --count N --seed S`: damaged cubins, decoded and, where that succeeds, run on simulated GPUs.

Bytes of kernels for sm_80 and sm_90 are changed, cut off, doubled, or exchanged, in the tables of the file and in the
code. Each must be refused with an error of ours, end with a fault of the kernel, or run to its end. Cases are run by
a few processes; one that crashes, or takes longer than `--seconds`, is replaced, and its case counted and named.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait

import numpy as np
import triton
import triton.language as tl

from tileprobe.errors import TileProbeError

_STEPS = 200_000  # instructions before a program is taken for endless


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


def _work(pipe: Connection, found: dict[int, tuple[bytes, int]]) -> None:
    """Runs the seeds that come through a pipe, until none does. What it starts ends with it."""
    os.setsid()
    from tileprobe.targets.simgpu import listing

    listing.SECONDS = 15  # nvdisasm itself hangs on some; a user is told so later
    while (seed := pipe.recv()) is not None:
        try:
            pipe.send(case(seed, found))
        except BaseException as error:
            pipe.send(f"{type(error).__name__}: {error}")


class _Worker:
    """A process with one case at a time."""

    def __init__(self, found: dict[int, tuple[bytes, int]]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, found), daemon=True)
        self.process.start()
        other.close()
        self.seed, self.late = 0, 0.0

    def begin(self, seed: int, seconds: float) -> None:
        self.seed, self.late = seed, time.monotonic() + seconds
        self.pipe.send(seed)

    def answer(self) -> str | None:
        """How its case ended; nothing if it is not over."""
        try:
            if self.pipe.poll():
                return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            return f"crash (status {self.process.exitcode})"
        if time.monotonic() > self.late:
            return "hang"
        return None

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            assert self.process.pid
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def campaign(seeds: range, jobs: int = 2, seconds: float = 60) -> Iterator[tuple[int, str]]:
    """(seed, how it ended) of all cases, as they end."""
    found, rest = cubins(), iter(seeds)
    busy: list[_Worker] = []
    for seed in itertools.islice(rest, jobs):
        busy.append(_Worker(found))
        busy[-1].begin(seed, seconds)
    try:
        while busy:
            wait([worker.pipe for worker in busy], timeout=1)
            for worker in list(busy):
                how = worker.answer()
                if how is None:
                    continue
                yield worker.seed, how
                busy.remove(worker)
                seed = next(rest, None)
                if seed is None or how == "hang" or how.startswith("crash"):
                    worker.end()
                if seed is None:
                    continue
                if not worker.process.is_alive():
                    worker = _Worker(found)
                worker.begin(seed, seconds)
                busy.append(worker)
    finally:
        for worker in busy:
            worker.end()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.cubins", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=2000, help="how many cases (2000)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--seconds", type=float, default=60, help="before a case is taken for hanging (60)")
    args = parser.parse_args()
    from tileprobe.targets.simgpu.engine.table import table

    table()  # compiled before processes are made
    count: Counter[str] = Counter()
    wrong, start = 0, time.monotonic()
    for seed, how in campaign(range(args.seed, args.seed + args.count), args.jobs, args.seconds):
        known = how in ("refused", "fault", "finished")
        count[how if known else "wrong"] += 1
        if not known:
            wrong += 1
            print(f"seed {seed}: {how}", flush=True)
    ended = ", ".join(f"{number} {how}" for how, number in sorted(count.items()))
    print(f"{sum(count.values())} damaged cubins in {time.monotonic() - start:.0f} s: {ended}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
