"""Tells the works of one kernel apart by grid and arguments, and says in words what they are.

In comes what a launcher tells of a launch: the grid, numbers as they are, shapes of tensors. Out goes a key that is the
same for launches that do the same amount of work, as far as can be seen from outside. A number that is another one in
nearly every launch (a step, a seed) would make each launch a work of its own: beyond a few different values it counts
by its magnitude, a real number not at all. Beyond so many works of a kernel the rest share one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import index
from typing import Any

VALUES = 16  # different integers or shapes of one argument that are told apart one by one
REAL_VALUES = 4  # real numbers seldom say how much there is to do
WORKS = 64  # of one kernel

Key = tuple[Hashable, ...] | None  # None: the work that the rest share


class Telling:
    """The works of one kernel that were seen so far."""

    def __init__(self) -> None:
        self._values: dict[int, set[Hashable]] = {}
        self._keys: set[Key] = set()
        self.full = False

    def key(self, grid: tuple[int, ...], arguments: Sequence[Any]) -> Key:
        found = (grid, *(self._value(place, _plain(value)) for place, value in enumerate(arguments)))
        if found in self._keys:
            return found
        if len(self._keys) >= WORKS:
            self.full = True
            return None
        self._keys.add(found)
        return found

    def _value(self, place: int, value: Hashable) -> Hashable:
        known = self._values.setdefault(place, set())
        limit = REAL_VALUES if isinstance(value, float) else VALUES
        if value in known or len(known) < limit:
            known.add(value)
            return value
        return _magnitude(value)


def _plain(value: Any) -> Hashable:
    """A value that can be looked up: NumPy's numbers as Python's, a shape as a tuple, anything else not at all."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value else "nan"
    for read in (index, _shape):
        try:
            return read(value)
        except (TypeError, ValueError):
            pass
    return None


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in value)


def _magnitude(value: Hashable) -> Hashable:
    if isinstance(value, int):
        bits = abs(value).bit_length()
        return f"{'-' if value < 0 else ''}2^{bits - 1}.." if value else 0
    if isinstance(value, tuple):
        return tuple(_magnitude(part) for part in value)
    return "*"


def in_words(key: Key, arguments: Sequence[tuple[str, str]]) -> str:
    """A key's arguments for people: "n=4096, causal=True; x 1024x64 f32"."""
    if key is None:
        return "others"
    numbers, tensors = [], []
    named = arguments if len(arguments) == len(key) - 1 else [(f"#{n}", "") for n in range(len(key) - 1)]
    for (name, kind), value in zip(named, key[1:]):
        if isinstance(value, tuple):
            shape = "x".join(map(str, value)) or "scalar"
            tensors.append(f"{name} {shape} {_type(kind)}".rstrip())
        elif not kind.startswith("*"):
            numbers.append(f"{name}={_number(value)}")
    return "; ".join(", ".join(part) for part in (numbers, tensors) if part)


def _number(value: Hashable) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _type(kind: str) -> str:
    """Triton's name of what a pointer points to, in short."""
    name = kind.lstrip("*")
    return "f" + name[2:] if name.startswith("fp") else name
