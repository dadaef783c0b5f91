"""Where a kernel was written, when its code comes from Triton's cache: a script that was copied or moved has the same
code, and that names the file in which it was compiled first.

In comes what a target says of a kernel; out goes the same, in which the file of the kernel's own first line, and with
it every place in that file, is the one that the kernel was launched from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tileprobe.ir.regions import Region
from tileprobe.targets.base import Exact, Source, Variant


def variant_at_home(variant: Variant, source: Source) -> Variant:
    old = _elsewhere(variant.regions, source)
    if old is None:
        return variant
    regions = tuple(_region(region, old, source.file) for region in variant.regions)
    return replace(variant, regions=regions, ir=ir_at_home(variant.ir, old, source))


def part_at_home(part: Exact, source: Source) -> tuple[Exact, str | None]:
    """The part, and the file that it named."""
    old = _elsewhere(part.regions, source)
    if old is None:
        return part, None
    regions = [_region(region, old, source.file) for region in part.regions]
    return replace(part, regions=regions, counters=_counters(part.counters, old, source.file)), old


def ir_at_home(ir: Mapping[str, str], old: str, source: Source) -> dict[str, str]:
    """Every mention of the file as a whole; PTX has its folder and its name apart."""
    whole = re.compile(rf"(?<![\w/.-]){re.escape(old)}(?![\w/-])")
    apart = '"{}" "{}"'.format(*os.path.split(old)), '"{}" "{}"'.format(*os.path.split(source.file))
    return {level: whole.sub(lambda _: source.file, text).replace(*apart) for level, text in ir.items()}


def _elsewhere(regions: Sequence[Region], source: Source) -> str | None:
    """The file that the kernel itself is said to be in, if that is another one."""
    root = next((region for region in regions if region.kind == "kernel"), None)
    if root is None or not root.file or not source.file or root.file == source.file:
        return None
    return root.file


def _region(region: Region, old: str, new: str) -> Region:
    parts = tuple(
        part._replace(frames=tuple((new if file == old else file, line) for file, line in part.frames))
        for part in region.parts
    )
    return replace(region, file=new if region.file == old else region.file, parts=parts)


def _counters(counters: Mapping[str, Any] | None, old: str, new: str) -> Mapping[str, Any] | None:
    if not counters or "file" not in counters:
        return counters
    files = [new if file == old else file for file in np.asarray(counters["file"]).tolist()]
    return {**counters, "file": np.array(files, object)}
