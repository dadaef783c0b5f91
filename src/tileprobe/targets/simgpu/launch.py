"""Launches a kernel on the simulated GPU. Triton makes one `Launcher` a compiled kernel and calls it on every launch.

The last two parameters of a kernel are the global scratch and the profile scratch; both are host memory here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from triton.backends.driver import expand_signature
from triton.runtime import _allocation

from tileprobe.errors import TileProbeError
from tileprobe.targets.arguments import check_count, grid_size
from tileprobe.targets.simgpu import arguments, launched, tensormap
from tileprobe.targets.simgpu.blocks import Image, aligned, image
from tileprobe.targets.simgpu.device import Counter
from tileprobe.targets.simgpu.engine.table import table as engine_table
from tileprobe.targets.simgpu.execute import execute, watched
from tileprobe.targets.simgpu.machine import Machine
from tileprobe.targets.simgpu.memory import holds_addresses
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.watching import Watch, not_followed, tell_unwatched

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
_MOST_PROGRAMS = (2**31 - 1, 65535, 65535)


class Listening(threading.local):
    """Who is told before a thread's launches are timed, and which of their instructions take no time, how many of them
    are noted, which lines are delayed, which are so many times faster, and which take no time."""

    def __init__(self) -> None:
        self.before: Callable[[Image], None] | None = None
        self.free: Sequence[int] = ()
        self.delays: Mapping[int, int] = {}  # source lines whose instructions are followed by so many cycles
        self.faster: Mapping[int, float] = {}  # source lines whose instructions take so many times less
        self.without: Sequence[int] = ()  # source lines whose instructions take no time
        self.log = 0
        self.busy = 0  # how many intervals of units are noted
        self.counting: list[Image] | None = None  # launches are timed, and what they do to memory is counted


listening = Listening()


class Launcher:
    """Called by Triton as `(gx, gy, gz, stream, function, packed, launch_metadata, enter, exit, *args)`."""

    hidden = True  # whether the last parameters are scratch memory, as Triton's are
    block: tuple[int, int, int] | None = None  # threads along each axis, where that is not one

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src, self.metadata = src, metadata
        fn = getattr(src, "fn", None)
        self.kernel = getattr(fn, "__name__", None) or src.name.lstrip("@")
        self.file = getattr(getattr(getattr(fn, "fn", None), "__code__", None), "co_filename", "")
        self.names = list(getattr(fn, "arg_names", None) or (str(k) for k in src.signature))
        self.descriptors = getattr(metadata, "tensordesc_meta", None)
        self.signature = list(src.signature.values())
        self.constants = _constants(src)
        self.expanded = expand_signature(self.signature, self.descriptors, "nvTmaDesc")

    def __call__(
        self, gx: int, gy: int, gz: int, stream: Any, function: Program, packed: Any, launch_metadata: Any,
        enter: Any, exit: Any, *args: Any,
    ) -> None:  # fmt: skip
        if enter is not None:
            enter(launch_metadata)
        try:
            self.run(function, (gx, gy, gz), args)
        finally:
            if exit is not None:
                exit(launch_metadata)

    def run(self, program: Program, grid: tuple[int, int, int], args: Any) -> int:
        """All programs of a grid. How many warp instructions they took."""
        grid = _checked(self.kernel, grid)
        cluster = getattr(self.metadata, "num_ctas", 1) or 1
        programs = grid[0] * grid[1] * grid[2] * cluster
        scratch = [self._scratch("global", programs), self._profile_scratch(programs)]
        values, spans = self._values(args)
        values += [("scratch", "*i8", held) for held in scratch if self.hidden]
        parameters = arguments.pack(self.kernel, values, program.cubin.parameters)
        given = spans + [span for _, _, value in values if (span := arguments.memory(value)) is not None]
        if program.swaps:
            given = [_whole_words(span) for span in given]
        ranges = given + _records()
        if self._takes_time():
            engine_table(timed=True)
        made = image(
            program,
            grid,
            self.threads(program),
            self.shared_bytes(program),
            parameters,
            ranges,
            cluster,
            self.block,
        )
        counting = listening.counting is not None
        made.searches = holds_addresses(values) and not counting  # what it was given is brought back
        made.fast_sums, made.names = settings.fast_sums, arguments.named(values)
        level = 0 if counting else settings.level()
        if level and (why := not_followed(made.warps, cluster)):
            tell_unwatched(program.name, "races", why)
        elif level:
            fresh = [span for held in scratch[:1] if (span := arguments.memory(held)) is not None]
            known = [span for span in given if span not in fresh]
            made.watch = Watch(program, programs, made.warps, made.shared_bytes, level, known, fresh, cluster)
            made.watch.names = made.names
            if made.watch.skipped:
                tell_unwatched(program.name, "races on global memory", made.watch.skipped)
        own = [arguments.memory(held) for held in scratch]
        made.given = [span for span in given if span not in own]
        issued, ns = self._run(made, grid, level)
        Counter.add(issued, ns)
        if not counting:
            launched.tell(self.kernel, self.file, self.constants, made, grid, issued)
        return issued

    def _run(self, made: Image, grid: tuple[int, int, int], level: int) -> tuple[int, float]:
        """How many instructions it took, and nanoseconds."""
        if self._takes_time():
            return self._timed(made, grid, level)
        issued = execute(made, grid, settings.wanted_threads(), settings.step_limit, level, _resident(made))
        return issued, float(issued)

    def _takes_time(self) -> bool:
        return settings.timed or listening.counting is not None

    def _timed(self, made: Image, grid: tuple[int, int, int], level: int) -> tuple[int, float]:
        """The same on a chip."""
        from triton.runtime import driver

        active: Any = driver.active
        if made.cluster > 1:
            raise TileProbeError(
                f"kernel {self.kernel}: clusters of programs (num_ctas={made.cluster}) are not timed yet; run it"
                " without timing"
            )
        if any("ARRIVES" in text for text in made.program.texts):
            raise TileProbeError(
                f"kernel {self.kernel}: barriers at which asynchronous copies arrive (`cp.async.mbarrier.arrive`) are"
                " not timed yet; run it without timing"
            )
        if grid[0] * grid[1] * grid[2] == 0:
            return 0, 0.0
        machine: Machine = active.machine
        resident = _resident(made) // machine.multiprocessors
        made.free, made.log, made.busy = listening.free, listening.log, listening.busy
        made.delays, made.faster, made.without = listening.delays, listening.faster, listening.without
        if listening.counting is not None:
            made.touched = True
            listening.counting.append(made)
        if listening.before is not None:
            listening.before(made)
        with watched(made, grid):
            made.took = took = active.chip.run(made, grid, level, resident, settings.step_limit)
        return took.instructions, took.cycles * 1e3 / machine.clock_mhz

    def shared_bytes(self, program: Program) -> int:
        """What the code claims for itself (inline assembly does), and behind it what the launch brings."""
        own = program.cubin.static_shared_bytes
        return _aligned(own) + self.metadata.shared if self.metadata.shared else own

    def threads(self, program: Program) -> int:
        return program.cubin.threads or self.metadata.num_warps * 32

    def _values(self, args: Any) -> tuple[list[tuple[str, str, Any]], list[tuple[int, int]]]:
        """(name, type, value) of all parameters, host descriptors taken apart; and the memory these lie over."""
        check_count(self.kernel, self.names, args)
        metas, spans, names = iter(self.descriptors or []), [], []

        def apart(kinds: Any, values: Any, called: Any) -> list[Any]:
            found: list[Any] = []
            for kind, value, name in zip(kinds, values, called):
                before = len(found)
                if isinstance(kind, tuple):
                    found.append(tuple(apart(kind, value, [None] * len(kind))))
                elif _is_descriptor(kind):
                    found += tensormap.arguments(value, next(metas, None))
                    if (span := arguments.memory(value.base)) is not None:
                        spans.append(span)
                else:
                    found.append(value)
                if name is not None:
                    names.extend([name] * (len(found) - before))
            return found

        expanded = apart(self.signature, args, self.names)
        return arguments.flatten(self.expanded, expanded, names), spans

    def _scratch(self, kind: str, programs: int) -> Any:
        size = getattr(self.metadata, f"{kind}_scratch_size", 0) or 0
        return _Held(aligned(size * programs)) if size else None

    def _profile_scratch(self, programs: int) -> Any:
        """That of a profiler, if one provides it."""
        size = getattr(self.metadata, "profile_scratch_size", 0) or 0
        if not size or not _allocation.has_profile_allocator():
            return self._scratch("profile", programs)
        return _allocation._profile_allocator(size * programs, self.metadata.profile_scratch_align, 0)


def _checked(kernel: str, grid: tuple[Any, Any, Any]) -> tuple[int, int, int]:
    x, y, z = (grid_size(kernel, size) for size in grid)
    for axis, size, most in zip("xyz", (x, y, z), _MOST_PROGRAMS):
        if not 0 <= size <= most:
            raise TileProbeError(
                f"kernel {kernel}: a grid of {grid} programs; along {axis} this GPU takes 0 to {most:,}"
            )
    return x, y, z


def _aligned(size: int) -> int:
    """Up to where Triton's own shared memory may begin (`.extern .shared .align 16`)."""
    return (size + 15) & ~15


def _resident(made: Image) -> int:
    """How many programs the machine holds at a time."""
    from triton.runtime import driver

    active: Any = driver.active
    machine: Machine = active.machine
    return machine.multiprocessors * max(1, launched.limits(made).warps // made.warps)


def _records() -> list[tuple[int, int]]:
    """Memory of a session, which kernels with records write to."""
    from tileprobe.targets.catalog import find

    return find("sim")[0].device().spans()  # type: ignore[attr-defined]


def _whole_words(span: tuple[int, int]) -> tuple[int, int]:
    """Memory up to the ends of its words: Triton makes atomics on 16 bits of exchanges of the 32 bits around them."""
    return span[0] & ~3, -(-span[1] // 4) * 4


def _constants(src: Any) -> dict[str, Any]:
    """The constants that a kernel was compiled with, by their names."""
    known = getattr(src, "constants", None) or {}
    places = {name: n for n, (name, kind) in enumerate(src.signature.items()) if kind == "constexpr"}
    found = {str(name): known.get((n,)) for name, n in places.items()}
    return {name: value for name, value in found.items() if isinstance(value, bool | int | float | str)}


def _is_descriptor(kind: Any) -> bool:
    return isinstance(kind, str) and kind.startswith("tensordesc")


class _Held:
    """Memory of ours as an argument."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.nbytes = data, data.nbytes

    def data_ptr(self) -> int:
        return self.data.ctypes.data
