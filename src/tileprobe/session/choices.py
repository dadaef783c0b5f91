"""Which programs and iterations to record, as a user writes it: `1%`, `random:16`, `0,5,9`; `every:4`.

In come the two texts; out goes the `Sampling` of a launch, once the size of its grid is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from tileprobe.errors import TileProbeError
from tileprobe.ir.sampling import ALL, Every, Sampling

PROGRAMS = "all, auto, 1%, random:16, or numbers such as 0,5,9"
ITERATIONS = "all, every:4, first:8 or last:8"


@dataclass(frozen=True)
class Choice:
    """Programs and iterations as written; `auto` starts with all and thins out what costs too much."""

    programs: str = "auto"
    iterations: str = "all"

    def __post_init__(self) -> None:
        self.sampling(1, 0)

    @property
    def auto(self) -> bool:
        return self.programs == "auto"

    def sampling(self, programs: int, launch: int, stride: int = 1) -> Sampling:
        """The sampling of the n-th launch. A stride moves on from launch to launch, so that each program has
        its turn."""
        found = _programs(self.programs, programs, launch)
        if stride > 1 and found.chosen is None:
            found = replace(found, programs=Every(found.programs.stride * stride))
        if found.programs.stride > 1:
            phase = launch * _spread(found.programs.stride) % found.programs.stride
            found = replace(found, programs=replace(found.programs, phase=phase))
        return replace(found, loops={-1: _iterations(self.iterations)})


def _spread(stride: int) -> int:
    """A step through all phases that spreads them evenly however few there are: near the golden ratio, and
    without a factor in common."""
    step = max(1, int(stride * 0.618))
    while gcd(step, stride) != 1:
        step += 1
    return step


def _programs(text: str, programs: int, launch: int) -> Sampling:
    if text in ("all", "auto", ""):
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
        return Sampling.random(programs, count, seed=launch)
    return Sampling(chosen=tuple(sorted({_number(part, int, text, PROGRAMS) for part in text.split(",")})))


def _iterations(text: str) -> Every:
    if text in ("all", ""):
        return Every()
    word, _, number = text.partition(":")
    count = _number(number, int, text, ITERATIONS)
    if count < 1 or word not in ("every", "first", "last"):
        raise TileProbeError(f"cannot read the iterations {text!r}; write {ITERATIONS}")
    return {"every": Every(stride=count), "first": Every(count=count), "last": Every(phase=-count)}[word]


def _number(text: str, kind, whole: str, expected: str):
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not 0 <= number <= ALL:  # nothing is counted from the end here, and records have 32 bits for it
        raise TileProbeError(f"cannot read {whole!r}; write {expected}")
    return number
