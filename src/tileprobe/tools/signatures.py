"""Names by which people tell kernels apart: specialisations of one name by what differs in their signatures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tileprobe.trace import Kernel


def labels(kernels: Sequence[Kernel]) -> dict[int, str]:
    """For each kernel's id its name; where several share a name, with what sets them apart:
    `softmax [BLOCK=128]`, `softmax (a/k.py)` of several files, or `softmax #2` where nothing does."""
    found: dict[int, str] = {}
    for name in dict.fromkeys(kernel.name for kernel in kernels):
        mine = [kernel for kernel in kernels if kernel.name == name]
        signatures = [kernel.signature for kernel in mine]
        apart = differences(signatures) if len(set(signatures)) > 1 else [""] * len(mine)
        given = [f"{name} [{what}]" if what else name for what in apart]
        files = {label: {k.file for k, other in zip(mine, given) if other == label} for label in given}
        seen: dict[str, int] = {}
        for kernel, label in zip(mine, given):
            if len(files[label]) > 1:
                label = f"{label} ({tail(kernel.file, files[label])})"
            seen[label] = seen.get(label, 0) + 1
            found[kernel.id] = label if seen[label] == 1 else f"{label} #{seen[label]}"
    return found


def tail(path: str, others: Iterable[str]) -> str:
    """As much of the end of a path as no other ends with."""
    parts = path.split("/")
    for length in range(1, len(parts) + 1):
        end = parts[-length:]
        if not any(other != path and other.split("/")[-length:] == end for other in others):
            return "/".join(end)
    return path


def differences(signatures: Sequence[str]) -> list[str]:
    """Of each signature what not all of them have; the whole of one that has nothing of its own."""
    items = [[item for item in signature.split(", ") if item] for signature in signatures]
    common = set.intersection(*map(set, items)) if items else set()
    return [", ".join(item for item in mine if item not in common) or ", ".join(mine) for mine in items]


def told_apart(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, each under the name that `labels` gives it."""
    names = labels(kernels)
    return [replace(kernel, name=names[kernel.id]) for kernel in kernels]
