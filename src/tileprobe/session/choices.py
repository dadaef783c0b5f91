"""Which programs and iterations to record, as a user writes it: `1%`, `random:16`, `0,5,9`; `every:4`.

In come the two texts; out goes the `Sampling` of a launch, once the size of its grid is known. `check_numbers` refuses
numbers of other options that mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import isqrt

from tileprobe.errors import TileProbeError
from tileprobe.ir.sampling import ALL, Every, Sampling
from tileprobe.session.draws import Draw

PROGRAMS = "all, auto, 1%, random:16, or numbers such as 0,5,9"
ITERATIONS = "all, every:4, first:8 or last:8"


# Least and largest of what a session takes; a limit keeps an integer in the 32 bits of a record's parameters.
_WHOLE = {
    "skip": (0, 2**31 - 1),
    "take": (1, 2**31 - 1),
    "capacity": (1, 2**24),
    "intervals": (1, 2**40),
    "seed": (-(2**63), 2**63 - 1),
}
_REAL = {
    "min_cost": (0.0, 1e18),
    "max_overhead": (1e-9, 1e6),
    "launch_mb": (1e-3, 2.0**30),
    "total_mb": (1e-3, 2.0**30),
}
_OPTIONS = {"capacity": "--capacity", "skip": "--skip", "take": "--take", "total_mb": "--budget-mb"}


def check_numbers(**given: object) -> None:
    """Refuses what is no number, or none that the option can have."""
    for name, value in given.items():
        whole = name in _WHOLE
        least, most = (_WHOLE if whole else _REAL)[name]
        kinds = (int,) if whole else (int, float)
        right = isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most
        if not right and not (value is None and name == "take"):
            shown = f"{name} ({_OPTIONS[name]})" if name in _OPTIONS else name
            kind = "a whole number" if whole else "a number"
            raise TileProbeError(f"{shown} is {kind} from {least:g} to {most:g}, not {value!r}")


@dataclass(frozen=True)
class Choice:
    """Programs and iterations as written; `auto` starts with all and thins out what costs too much."""

    programs: str = "auto"
    iterations: str = "all"

    def __post_init__(self) -> None:
        self.sampling(1, Draw())

    @cached_property
    def auto(self) -> bool:
        return self.programs == "auto"

    @property
    def numbers(self) -> tuple[int, ...]:
        """Programs that were asked for one by one."""
        return () if self.programs.startswith("random:") else self.sampling(1, Draw()).chosen or ()

    def draws(self, sampling: Sampling) -> bool:
        """Whether the next launch may have another sampling than this one."""
        strides = (sampling.programs.stride, *(every.stride for every in sampling.loops.values()))
        return self.programs.startswith("random:") or max(strides) > 1

    def sampling(
        self,
        programs: int,
        draw: Draw,
        stride: int = 1,
        *,
        blocks: int | None = None,
        trips: Mapping[int, tuple[int, int, int]] | None = None,
        ends: Mapping[int, int] | None = None,
    ) -> Sampling:
        """The sampling of the next launch, drawn so that each program and each iteration has its turn whatever the
        kernel's own pattern is.

        `stride` leaves out programs, as do more than there are `blocks` for; `trips` are, of loops that ran more
        often than there is room for, room and the most and least trips seen; `ends` are, of loops whose end nobody
        knows before, the fewest iterations that a run is known to have, or 0."""
        found = _programs(self.programs, programs, draw)
        every = found.programs
        if stride > 1 and found.chosen is None:
            every = Every(every.stride * odd_prime(stride))
        if blocks is not None:
            found = replace(found, programs=every).within(programs, blocks)
            every = found.programs
        every = Every(every.stride, draw.turn("programs", min(every.stride, programs)))
        iterations = _iterations(self.iterations)
        seen, last = trips or {}, iterations.phase < 0
        loops = {loop: _covering(iterations, each, draw, loop) for loop, each in seen.items()}
        for loop, fewest in (ends or {}).items() if last else ():
            if fewest:
                loops[loop] = Every(phase=max(0, fewest + iterations.phase))
            else:  # nothing is known of its end: any of its iterations are better than none
                loops[loop] = _covering(Every(), seen[loop], draw, loop) if loop in seen else Every()
        return Sampling(every, {-1: iterations, **loops}, found.chosen)


@lru_cache(maxsize=256)
def odd_prime(least: int) -> int:
    """The next stride in which no pattern of the kernel's own (every second program, every eighth iteration) can hide:
    with a factor in common, a launch would see one part of the pattern only."""
    number = max(3, least | 1)
    while any(number % by == 0 for by in range(3, isqrt(number) + 1, 2)):
        number += 2
    return number


def _covering(every: Every, seen: tuple[int, int, int], draw: Draw, loop: int) -> Every:
    """Iterations over the whole length of a loop, as many as there is room for. Hardly a run of it shall be without
    any, so that the shortest that counts bounds the phase."""
    room, most, least = seen
    if every.count != ALL or every.phase:
        return every  # the first or the last ones are asked for
    stride = every.stride if -(-most // every.stride) <= room else odd_prime(-(-most // room))
    return Every(stride, draw.turn(loop, min(stride, least)))


def _programs(text: str, programs: int, draw: Draw) -> Sampling:
    if text in ("all", "auto"):
        return Sampling()
    if text.endswith("%"):
        share = _number(text[:-1], float, text, PROGRAMS) / 100.0
        if not 1 / ALL < share <= 1:
            raise TileProbeError(f"{text} of the programs cannot be recorded; write a share such as 1%")
        return Sampling(Every(max(1, round(1 / share))))
    if text.startswith("random:"):
        count = _number(text[7:], int, text, PROGRAMS)
        if not count:
            raise TileProbeError(f"{text} records nothing; write {PROGRAMS}")
        return Sampling.random(programs, count, seed=draw.getrandbits(32))
    return Sampling(chosen=tuple(sorted({_number(part, int, text, PROGRAMS) for part in text.split(",")})))


@lru_cache(maxsize=16)
def _iterations(text: str) -> Every:
    if text == "all":
        return Every()
    word, _, number = text.partition(":")
    count = _number(number, int, text, ITERATIONS)
    if count < 1 or word not in ("every", "first", "last"):
        raise TileProbeError(f"cannot read the iterations {text!r}; write {ITERATIONS}")
    return {"every": Every(stride=count), "first": Every(count=count), "last": Every(phase=-count)}[word]


def _number(text: str, kind, whole: str, expected: str):
    try:
        number = kind(text) if text.isascii() else -1
    except ValueError:
        number = -1
    if not 0 <= number <= ALL:  # nothing is counted from the end here, and records have 32 bits for it
        raise TileProbeError(f"cannot read {whole!r}; write {expected}")
    return number
