"""Names by which people tell kernels apart: specialisations of one name by what differs in their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileprobe.trace import Kernel


def labels(kernels: Sequence[Kernel]) -> dict[int, str]:
    """For each kernel's id its name; where several share a name, with what sets them apart:
    `softmax [BLOCK=128]`, or `softmax #2` where their signatures are the same or not known."""
    found: dict[int, str] = {}
    for name in dict.fromkeys(kernel.name for kernel in kernels):
        mine = [kernel for kernel in kernels if kernel.name == name]
        apart = [""] if len(mine) == 1 else differences([kernel.signature for kernel in mine])
        seen: dict[str, int] = {}
        for kernel, what in zip(mine, apart):
            label = f"{name} [{what}]" if what else name
            seen[label] = seen.get(label, 0) + 1
            found[kernel.id] = label if seen[label] == 1 else f"{label} #{seen[label]}"
    return found


def differences(signatures: Sequence[str]) -> list[str]:
    """Of each signature what not all of them have; the whole of one that has nothing of its own."""
    items = [[item for item in signature.split(", ") if item] for signature in signatures]
    common = set.intersection(*map(set, items)) if items else set()
    return [", ".join(item for item in mine if item not in common) or ", ".join(mine) for mine in items]


def told_apart(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, each under the name that `labels` gives it."""
    names = labels(kernels)
    return [replace(kernel, name=names[kernel.id]) for kernel in kernels]
