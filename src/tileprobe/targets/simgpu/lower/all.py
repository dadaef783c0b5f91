"""All instructions of a kernel to micro-ops."""

from __future__ import annotations

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at
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
    return made, kernel
