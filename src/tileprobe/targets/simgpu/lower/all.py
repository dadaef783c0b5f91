"""All instructions of a kernel to micro-ops."""

from __future__ import annotations

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.shadow import STRONG
from tileprobe.targets.simgpu.listing import Listing
from tileprobe.targets.simgpu.lower import (  # noqa: F401  they register
    control,
    exchange,
    floats,
    hopper,
    integer,
    memory,
    shared,
    tensor,
)
from tileprobe.targets.simgpu.lower.case import LOWERINGS, Case, Kernel


def lower(listing: Listing, arch: int) -> tuple[np.ndarray, Kernel]:
    kernel = Kernel(arch, listing.labels)
    made = np.zeros((len(listing.instructions), at.UOP // 4), np.int32)
    for n, instruction in enumerate(listing.instructions):
        case = Case(instruction, kernel)
        lowering = LOWERINGS.get(instruction.root)
        if lowering is None:
            raise case.refuse()
        lowering(case)
        made[n] = case.finish()
    _compared_loads(listing, made)
    return made, kernel


def _compared_loads(listing: Listing, made: np.ndarray) -> None:
    """Of atomics that ptxas makes of an exchange (sums of halves on sm_80) the load before it is an ordinary one. The
    exchange finds out whether it was in time, so for the checks it is as the exchange is: ordered."""
    exchanges = {
        (op.file, op.line, *made[n, [at.C, at.A, at.B, at.I0]])
        for n, op in enumerate(listing.instructions)
        if op.root == "ATOMG" and "CAS" in op.mods
    }
    for n, op in enumerate(listing.instructions):
        if op.root == "LDG" and (op.file, op.line, *made[n, [at.D, at.A, at.B, at.I0]]) in exchanges:
            made[n, at.I2] |= STRONG
