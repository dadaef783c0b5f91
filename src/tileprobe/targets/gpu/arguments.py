"""What of a launch's arguments tells one piece of work from another: shapes of tensors, numbers as they are.

In comes how a kernel was specialised; out go names and types of what is told, and a function that tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Path = tuple[int, ...]


def told(names: Sequence[str], signature: Sequence[Any]) -> list[tuple[Path, str, str]]:
    """Where each run-time argument lies among those that Triton hands on, its name and its type."""
    found: list[tuple[Path, str, str]] = []

    def add(path: Path, name: str, kind: Any) -> None:
        if isinstance(kind, tuple):
            for n, inner in enumerate(kind):
                add((*path, n), f"{name}[{n}]", inner)
        elif kind != "constexpr":
            found.append((path, name, str(kind)))

    for n, (name, kind) in enumerate(zip(names, signature)):
        add((n,), name, kind)
    return found


def teller(places: Sequence[tuple[Path, str, str]]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function of the arguments. Nothing depends on it, so what it cannot read is None."""

    def tell(arguments: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(_value(arguments, path) for path, _, _ in places)

    return tell


def value_at(arguments: Any, path: Path) -> Any:
    """One of the arguments, or what is inside of a tuple among them."""
    for n in path:
        arguments = arguments[n]
    return arguments


def _value(arguments: Any, path: Path) -> Any:
    try:
        held = value_at(arguments, path)
        shape = getattr(held, "shape", None)
        return held if shape is None else tuple(shape)
    except Exception:
        return None
