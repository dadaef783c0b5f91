"""Where matrices go: the pages that the compiled step commands, or maps made by hand for a single layer.

In: a model and a machine, or shapes and a block. Out: a table of pages a matrix, no two of which share a page.
"""

from __future__ import annotations

from dataclasses import replace

from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import page_tables
from tileprobe.targets.cambricon.expand import Placed
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.pagemap import (
    FLASH_ONLY,
    NPU_ONLY,
    SPLIT,
    PageMap,
    geometry_of,
    stack,
)


def compiled_maps(model: Model, machine: Machine, options: Options) -> dict[str, Placed]:
    """The pages of a model's matrices, lm_head included: those that its compiled step commands."""
    options = replace(options, lm_head=True, prefill=False, context=1)
    return dict(page_tables(compile_step(model, machine, options)))


def place(
    machine: Machine,
    shapes: list[tuple[int, int]],
    block: tuple[int, int],
    share: float = 0.7,
    mode: str = SPLIT,
) -> list[PageMap]:
    """Maps for matrices of any shape with blocks of one shape; `share` of the block rows is in flash."""
    geometry = geometry_of(machine, mode)
    maps = []
    for rows, cols in shapes:
        chunks = -(-rows // block[0])
        in_flash = {FLASH_ONLY: chunks, NPU_ONLY: 0}.get(mode, round(share * chunks))
        maps.append(PageMap(geometry, rows, cols, *block, in_flash))
    return stack(maps)
