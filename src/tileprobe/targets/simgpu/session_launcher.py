"""Launches of a simulated GPU that a session looks at: probes that take no time, and the truth beside those that do.

Records are instructions of the kernel. Where they are free they are executed when the instruction behind them could be
issued, and take neither an issue slot nor a unit nor memory. To verify a launch it is run three times from the same
memory and the same caches: without probes, with free ones, and as it would be on a GPU; the program sees the last one.
"""

from __future__ import annotations

import ctypes
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.accesses import counters
from tileprobe.ir.scopes import scopes_in
from tileprobe.targets.base import PlainTruth, Variant, Verified, Watch
from tileprobe.targets.gpu.evidence import read_code
from tileprobe.targets.gpu.kernel import GpuKernel
from tileprobe.targets.gpu.launcher import GpuLauncher
from tileprobe.targets.simgpu.blocks import Image
from tileprobe.targets.simgpu.device import Counter
from tileprobe.targets.simgpu.launch import listening
from tileprobe.targets.simgpu.machine_text import machine_text
from tileprobe.targets.simgpu.program import decode
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.timing.busy import groups_of, part_of
from tileprobe.targets.simgpu.timing.plain import plain_truth
from tileprobe.targets.simgpu.timing.touched import touched_by
from tileprobe.targets.simgpu.timing.truth import exact

_NO_HOOKS = (None, None)
_EVENTS = 8  # issued instructions for each interval that is wanted


class SimKernel(GpuKernel):
    """A kernel that needs no probes to be looked into."""

    @property
    def weighed(self) -> bool:
        return not settings.free_probes

    def compile(self, pipeline: str) -> Variant:
        if not settings.no_probes:
            made = super().compile(pipeline)
            kernel = None if made.code is None else made.code.kernel
            return made if kernel is None else replace(made, ir={**made.ir, **_machine_code(kernel)})
        levels = {
            level: self.compiled.asm[level]
            for level in ("ttir", "ttgir", "ptx")
            if level in self.compiled.asm
        }
        return Variant(
            self.compiled.hash, None, ir={**levels, **_machine_code(self.compiled)}, notes=self._unseen()
        )

    def _unseen(self) -> tuple[str, ...]:
        """What a user wrote into the kernel that needs probes to be seen."""
        first = self.source.first_line
        lines = range(first, first + len(self.source.text.splitlines()))
        names = [scope.name for scope in scopes_in(self.source.file) if scope.first in lines]
        if not names:
            return ()
        return (f'scopes need probes, --probes free (probes="free") shows them: {", ".join(names)}',)


def _machine_code(kernel: Any) -> dict[str, str]:
    """What ptxas made of it, which is what runs here."""
    cubin = kernel.asm.get("cubin")
    return {} if cubin is None else {"sass": machine_text(decode(cubin, kernel.metadata.name))}


class SimLauncher(GpuLauncher):
    def __call__(self, *launch: Any) -> None:
        self.target.clock.start()
        super().__call__(*launch)

    @cached_property
    def shown(self) -> GpuKernel:
        return SimKernel(self.compiled, self.target)

    def _timed(self, watch: Watch, taken: list[Any], plain: tuple[Any, ...]) -> None:
        if watch.accesses:
            self._count(watch, plain)
        if watch.variant is None or not settings.no_probes:
            super()._timed(watch, taken, plain)
            return
        images: list[Image] = []
        began, before = Counter.passed_ns, (listening.before, listening.log, listening.busy)
        listening.before, listening.log = images.append, _EVENTS * watch.room
        listening.busy = watch.room if watch.units else 0
        try:
            end = self._events(watch, plain[3])
            self.run(*plain)
            end()
        finally:
            listening.before, listening.log, listening.busy = before
        took, hz = images[0].took, self.target.clock.hz()
        assert took is not None
        base = round(began * hz / 1e9)
        ns = Counter.passed_ns - began
        program, name = images[0].program, self.shown.name
        parts = [exact(program, name, took, watch.room, base, ns, tuple(plain[:3]))]
        if took.busy is not None:
            parts.append(part_of(took.busy, groups_of(program)[1], base, ns, hz, name))
        watch.exact(parts)

    def _count(self, watch: Watch, plain: tuple[Any, ...]) -> None:
        """Runs the launch without probes and with time, counts what it does to memory, and leaves all as it was."""
        from triton.runtime import driver

        active: Any = driver.active
        caches, listening.counting = active.chip.state(), []
        try:
            with remembered() as restore, Counter.beside():
                try:
                    self.run(*plain[:7], *_NO_HOOKS, *plain[9:])
                    found, notes = touched_by(listening.counting[0], plain[0] * plain[1] * plain[2]), ()
                except TileProbeError as error:
                    why = str(error).splitlines()[0]
                    found, notes = [], (f"what it does to memory was not counted: {why}",)
                finally:
                    restore()
        finally:
            listening.counting = None
            active.chip.restore(caches)
        watch.touched(counters(found), notes)

    def _probed(
        self, watch: Watch, taken: list[Any], plain: tuple[Any, ...], launch: Callable[..., None]
    ) -> None:
        assert watch.variant is not None
        made = watch.variant.code
        if settings.free_probes:
            with free(made.kernel):
                super()._probed(watch, taken, plain, launch)
            return
        if (
            settings.verify and max(Tally(made.records).values()) == 1
        ):  # not those that tell what a record costs
            watch.verified(self._truth(watch, taken, plain, launch))
        super()._probed(watch, taken, plain, launch)

    def _truth(
        self, watch: Watch, taken: list[Any], plain: tuple[Any, ...], launch: Callable[..., None]
    ) -> Verified:
        """Runs the launch without probes, then with free ones, and leaves everything as it was."""
        from triton.runtime import driver

        assert watch.variant is not None
        active: Any = driver.active
        kernel, caches, device, (buffer,) = (
            watch.variant.code.kernel,
            active.chip.state(),
            self.target.device(),
            taken,
        )
        with remembered() as restore:
            with Counter.beside() as passed, logged(_EVENTS * watch.room) as images:
                self.run(*plain[:7], *_NO_HOOKS, *plain[9:])
                plain_ns = passed()
            by_lines = self._by_lines(watch, images[0], plain[0] * plain[1] * plain[2])
            restore()
            active.chip.restore(caches)
            with Counter.beside() as passed, free(kernel):
                launch(_NO_HOOKS)
                free_ns = passed()
            words = buffer.read()
            restore()
            active.chip.restore(caches)
        device.zero(buffer.address, words.nbytes, plain[3])
        return Verified(words, plain_ns, free_ns, by_lines)

    def _by_lines(self, watch: Watch, image: Image, programs: int) -> Mapping[int, PlainTruth]:
        """Regions in the plain run, of those programs that are recorded."""
        variant, sampling = watch.variant, watch.sampling
        assert (
            variant is not None
            and variant.layout is not None
            and sampling is not None
            and image.took is not None
        )
        recorded = sampling.recorded(programs, sampling.wanted(programs))
        return plain_truth(
            image.program, image.took, variant.regions, variant.layout.granularity == "warp", recorded
        )


@contextmanager
def logged(most: int) -> Iterator[list[Image]]:
    """What is issued in launches of the block is noted; gives a list that they come into."""
    images: list[Image] = []
    before = listening.before, listening.log

    def note(made: Image) -> None:
        images.append(made)
        if before[0] is not None:
            before[0](made)

    listening.before, listening.log = note, most
    try:
        yield images
    finally:
        listening.before, listening.log = before


@contextmanager
def free(kernel: Any) -> Iterator[None]:
    """The records of a kernel that is launched in the block take no time."""
    before = listening.free
    listening.free = own_instructions(kernel.asm["cubin"], kernel)
    try:
        yield
    finally:
        listening.free = before


@lru_cache(maxsize=64)
def own_instructions(cubin: bytes, kernel: Any) -> tuple[int, ...]:
    """Which instructions of a kernel its records brought."""
    return tuple(n for n, op in enumerate(read_code(kernel).instructions) if op.ours)


@contextmanager
def remembered() -> Iterator[Callable[[], None]]:
    """Gives a function that brings the memory back that the first launch in the block could touch."""
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    before = listening.before

    def keep(made: Image) -> None:
        listening.before = before
        for start, end in sorted(set(made.given)):
            memory = np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
            kept.append((memory, memory.copy()))

    def restore() -> None:
        for memory, copy in kept:
            memory[:] = copy

    listening.before = keep
    try:
        yield restore
    finally:
        listening.before = before
