"""Launches of a program that are run again, otherwise: with other options, with a delay, on another machine.

`relaunching(seen)` for a block; before each first launch of a kernel over a grid with arguments like these, `seen` is
given a `Relaunch`. What it runs finds the memory that the program's own launch will find, which comes after and is not
touched: results, prints and order of the program are as they are without.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.session.arguments import Telling
from tileprobe.session.same_results import Tensor
from tileprobe.targets.base import launches
from tileprobe.targets.edited import edited

PAGE = 4096  # bytes, as much as is put back at once


class Relaunch:
    """One launch: `kernel[grid](*args, **options)`."""

    def __init__(self, function: Any, args: tuple[Any, ...], grid: Any, options: dict[str, Any]) -> None:
        self.function, self.args, self.grid, self.options = function, args, grid, options
        self._memory = [_bytes(span) for span in _spans([*args, *options.values()])]
        self._held = [piece.copy() for piece in self._memory]
        self._touched = [np.zeros(-(-len(piece) // PAGE), bool) for piece in self._memory]
        self._ran: set[str] = set()  # ways to run it whose writes are known
        self._unknown = False

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def bytes(self) -> int:
        """Of its tensors."""
        return sum(len(piece) for piece in self._memory)

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The constexpr arguments that were given by name or place, or have a default."""
        bound = self.function.signature.bind(*self.args, **self._known(self.options))
        bound.apply_defaults()
        names = [p.name for p in self.function.params if p.is_constexpr]
        return {name: bound.arguments[name] for name in names if name in bound.arguments}

    def _known(self, options: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in options.items() if name in self.function.signature.parameters}

    @property
    def programs(self) -> tuple[int, ...]:
        """How many along each axis of the grid."""
        grid: Any = self.grid
        if callable(grid):
            bound = self.function.signature.bind_partial(*self.args, **self._known(self.options))
            bound.apply_defaults()
            grid = grid({**bound.arguments, **self.options})
        return tuple(int(n) for n in (grid if isinstance(grid, tuple | list) else (grid,)))

    def run(self, mode: str | None = None, edit: str = "", level: str = "ttir", **changes: Any) -> Any:
        """Once, with other options or constants; `mode` is an instrumentation mode of Triton's, `edit` a pipeline of
        passes over its IR of a level. The compiled kernel."""
        from triton import knobs

        args, options = self._with(changes)
        way, known = f"{mode} {edit} {level} {changes}", self._unknown
        self._unknown = True  # where it fails, what it wrote is not what it writes
        with knobs.compilation.scope(), edited(edit, level):
            if mode is not None:
                knobs.compilation.instrumentation_mode = mode
            kernel = _original(self.function)(self.function, *args, grid=self.grid, warmup=False, **options)
        self._unknown = known or way not in self._ran
        self._ran.add(way)
        return kernel

    def _with(self, changes: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Constants that were given by place are changed there."""
        places = {p.name: n for n, p in enumerate(self.function.params) if n < len(self.args)}
        args = list(self.args)
        for name in [name for name in changes if name in places]:
            args[places[name]] = changes[name]
        rest = {name: value for name, value in changes.items() if name not in places}
        return tuple(args), {**self.options, **rest}

    def restore(self, whole: bool = False) -> None:
        """The memory is as it was before. Only pages that runs write are put back: what is only read stays in caches
        as the last launch left it, as it does where a program launches again and again. What a new way to run it
        writes is looked for once."""
        for piece, held, touched in zip(self._memory, self._held, self._touched):
            if self._unknown and not whole:
                full = len(piece) // PAGE * PAGE
                differ = (piece[:full] != held[:full]).reshape(-1, PAGE).any(axis=1)
                touched[: len(differ)] |= differ
                touched[len(differ) :] |= not np.array_equal(piece[full:], held[full:])
            for first, end in [(0, len(touched))] if whole else _rows(touched):
                piece[first * PAGE : end * PAGE] = held[first * PAGE : end * PAGE]
        self._unknown = False

    def results(self) -> list[np.ndarray]:
        """What the memory holds now."""
        return [piece.copy() for piece in self._memory]

    def tensors(self) -> list[Tensor]:
        """Those of the arguments, as they are now."""
        named = [(p.name, value) for p, value in zip(self.function.params, self.args)]
        named += [(name, value) for name, value in self.options.items()]
        return [one for name, value in named if (one := _tensor(name, value)) is not None]


_running: list[Any] = []  # Triton's own `JITFunction.run`, while ours stands in its place


def _original(function: Any) -> Any:
    return _running[-1] if _running else type(function).run


@contextmanager
def relaunching(seen: Callable[[Relaunch], None]) -> Iterator[None]:
    from triton.runtime.jit import JITFunction

    original, told = JITFunction.run, {}
    within = False

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        nonlocal within
        if not within and not warmup and _is_new(told, self, args, grid, options):
            within = True
            _running.append(original)
            try:
                launch = Relaunch(self, args, grid, options)
                try:
                    seen(launch)
                finally:
                    launch.restore(whole=True)
            finally:
                within = False
                _running.pop()
        return original(self, *args, grid=grid, warmup=warmup, **options)

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original


def _is_new(told: dict[Any, Any], function: Any, args: Any, grid: Any, options: dict[str, Any]) -> bool:
    """Whether no launch of this kernel did work like this before."""
    values = [*args, *options.values()]
    plain = tuple(value.shape if hasattr(value, "shape") else value for value in values)
    telling, keys = told.setdefault(function, (Telling(), set()))
    key = (telling.key(grid if isinstance(grid, tuple) else (), plain), tuple(options))
    new = key not in keys
    keys.add(key)
    return new


@dataclass(frozen=True)
class Took:
    """How long a launch took, and its threads together for its programs; None where that is not known."""

    ns: float
    busy_ns: float | None = None

    @property
    def cores(self) -> float:
        """How many worked in the mean. One at least: while it waited for a processor nothing else was done."""
        return 1.0 if self.busy_ns is None or self.ns <= 0 else max(1.0, self.busy_ns / self.ns)


def taken(run: Callable[[], Any], target: Any) -> Took | None:
    """Of the launch that `run` makes, by the target's own clock; of the last, if it makes several."""
    measured = getattr(target, "measured", None)
    if measured is not None:
        ns = measured(run)
        return None if ns is None else Took(ns)
    watches: list[_Watch] = []

    def observer(kernel: Any, grid: Any, plain: int, arguments: Any = (), /) -> Any:
        watches.append(_Watch())
        return watches[-1]

    end = launches.subscribe(observer)
    try:
        run()
    finally:
        end()
    if not watches or watches[-1].duration_ns is None:
        return None
    return Took(watches[-1].duration_ns, watches[-1].busy_ns)


def timed(launch: Relaunch, target: Any, mode: str | None = None, **changes: Any) -> Took:
    """Of the launch with its memory as it was, without probes: all that are held against each other are timed so."""
    launch.restore()
    took = taken(lambda: launch.run(mode, **changes), target)
    if took is None:
        raise TileProbeError(f"{launch.name}: this target does not say how long launches take")
    return took


def taken_ns(run: Callable[[], Any], target: Any) -> float | None:
    """How long it took, alone."""
    found = taken(run, target)
    return None if found is None else found.ns


class _Watch:
    """A launch without probes, of which only the time is wanted."""

    variant = sampling = None
    parameters = room = 0
    accesses = units = False
    duration_ns: float | None = None
    busy_ns: float | None = None  # with what the operating system took from its threads

    def start(self) -> None: ...

    def ended(
        self,
        taken_ns: int | None = None,
        duration_ns: int | None = None,
        began_ns: int | None = None,
        ran_ns: int | None = None,
    ) -> None:
        self.duration_ns = duration_ns
        self.busy_ns = None if ran_ns is None else float(ran_ns + (taken_ns or 0))

    def stop(self) -> None: ...

    def abort(self) -> None: ...

    def exact(self, parts: Any) -> None: ...

    def verified(self, truth: Any) -> None: ...


def _spans(values: list[Any]) -> list[tuple[int, int]]:
    """First byte and end of the memory of tensors, each once."""
    found: set[tuple[int, int]] = set()
    for value in values:
        while not hasattr(value, "untyped_storage") and hasattr(value, "base"):
            value = value.base
        storage = getattr(value, "untyped_storage", None)
        if storage is not None:
            kept = storage()
            found.add((kept.data_ptr(), kept.data_ptr() + kept.nbytes()))
        elif hasattr(value, "data_ptr") and hasattr(value, "ptr_range"):
            found.add((value.data_ptr(), value.data_ptr() + value.ptr_range()))
    return sorted(span for span in found if span[1] > span[0])


def _rows(chosen: np.ndarray) -> list[tuple[int, int]]:
    """First and end of each row of those that are chosen."""
    steps = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    return list(zip(steps[::2].tolist(), steps[1::2].tolist()))


def _bytes(span: tuple[int, int]) -> np.ndarray:
    start, end = span
    return np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))


def _tensor(name: str, value: Any) -> Tensor | None:
    """None of what is none. Of numbers that NumPy does not know the bytes are taken."""
    while not hasattr(value, "data_ptr") and hasattr(value, "base"):
        value = value.base
    if not hasattr(value, "data_ptr"):
        return None
    try:
        size = int(value.element_size())
        torchs = value.detach() if hasattr(value, "detach") else value
        narrow = torchs is not value and value.is_floating_point() and size <= 2
        values = np.array((torchs.float() if narrow else torchs).numpy(), copy=True)
        return Tensor(name, values, 8 * size)
    except (TypeError, RuntimeError, AttributeError):
        spans = _spans([value])
        raw = [_bytes(span).copy() for span in spans]
        return Tensor(name, np.concatenate(raw), None) if raw else None
