"""Where a kernel was written, when its code comes from Triton's cache: a script that was copied or moved has the same
code, and that names the files in which it was compiled first.

In comes what a target says of a kernel; out goes the same, in which the file of the kernel's own first line is the one
that it was launched from, and those of the functions that it calls are the program's modules: it has imported them all.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from types import ModuleType
from typing import Any

import numpy as np

from tileprobe.ir.regions import Region
from tileprobe.targets.base import Exact, Source, Variant

_JIT = ("JITFunction", "GluonJITFunction", "ConstexprFunction")  # of Triton, which need not be there
Moves = Mapping[str, str]  # a file that is named -> where it is


def variant_at_home(variant: Variant, source: Source) -> Variant:
    moves = moves_of(variant.regions, source)
    if not moves:
        return variant
    regions = tuple(_region(region, moves) for region in variant.regions)
    return replace(variant, regions=regions, ir=ir_at_home(variant.ir, moves))


def part_at_home(part: Exact, source: Source) -> tuple[Exact, Moves]:
    """The part, and the files that are elsewhere than it named them."""
    counted = [] if not part.counters else np.unique(np.asarray(part.counters.get("file", []), str)).tolist()
    moves = moves_of(part.regions, source, counted)
    if not moves:
        return part, moves
    regions = [_region(region, moves) for region in part.regions]
    return replace(part, regions=regions, counters=_counters(part.counters, moves)), moves


def ir_at_home(ir: Mapping[str, str], moves: Moves) -> dict[str, str]:
    """Every mention of the files as a whole; PTX has a folder and its name apart."""
    if not moves:
        return dict(ir)
    names = {**moves, **{_apart(old): _apart(new) for old, new in moves.items()}}
    any_of = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    whole = re.compile(rf"(?<![\w/.-])({any_of})(?![\w/-])")
    return {level: whole.sub(lambda found: names[found[1]], text) for level, text in ir.items()}


def moves_of(regions: Sequence[Region], source: Source, more: Iterable[str] = ()) -> Moves:
    """The files of regions, and `more`, that are not where they are said to be."""
    root = next((region for region in regions if region.kind == "kernel"), None)
    own = root.file if root is not None and source.file else ""
    frames = {file for region in regions for part in region.parts for file, _ in part.frames}
    files = sorted(({region.file for region in regions} | frames | set(more)) - {own, ""})
    moves = {own: source.file} if own else {}
    modules = _modules()
    moves |= {file: _home(file, modules) for file in files}
    return {old: new for old, new in moves.items() if old != new}


def _modules() -> dict[str, ModuleType]:
    found = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            found[os.path.abspath(file)] = module
    return found


def _home(file: str, modules: Mapping[str, ModuleType]) -> str:
    """The module with functions for kernels that the file is a copy of: the one that has the most in common with the
    end of its path, folders too unless the file is gone. The file itself where it is a module, or no single one is
    meant."""
    if file in modules or (file in linecache.cache and not os.path.exists(file)):  # a cell of a notebook
        return file
    parts = PurePath(file).parts[::-1]
    shared = {other: _shared(parts, PurePath(other).parts[::-1]) for other in modules}
    alike = [other for other, count in shared.items() if count and _has_kernels(modules[other])]
    most = max((shared[other] for other in alike), default=0)
    best = [other for other in alike if shared[other] == most]
    enough = most >= 2 or (most == 1 and not os.path.exists(file))
    return best[0] if enough and len(best) == 1 else file


def _has_kernels(module: ModuleType) -> bool:
    return any(type(value).__name__ in _JIT for value in list(vars(module).values()))


def _shared(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (one, other) in enumerate(zip(a, b)) if one != other), min(len(a), len(b)))


def _apart(file: str) -> str:
    return '"{}" "{}"'.format(*os.path.split(file))


def _region(region: Region, moves: Moves) -> Region:
    parts = tuple(
        part._replace(frames=tuple((moves.get(file, file), line) for file, line in part.frames))
        for part in region.parts
    )
    return replace(region, file=moves.get(region.file, region.file), parts=parts)


def _counters(counters: Mapping[str, Any] | None, moves: Moves) -> Mapping[str, Any] | None:
    if not counters or "file" not in counters:
        return counters
    files = [moves.get(file, file) for file in np.asarray(counters["file"]).tolist()]
    return {**counters, "file": np.array(files, object)}
