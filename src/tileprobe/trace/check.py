"""What a file says is checked before anything is made of it: a damaged trace is known as one when it is opened.

In come the rows of a description and the tables beside it; out goes nothing, or `Damaged` with what is wrong: a value
of another type, a number that is none, an id that nothing has, regions that lie in one another in a circle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout

_LARGEST = 2**53  # an integer that JSON of any program keeps
_LIMITS = {
    "weight": 1e12,
    "fit": 1e12,
    "taken_ns": 1e18,
    "probes_ns": 1e18,
}  # beyond them sums are no longer numbers
_LINES = 1_000_000  # of a source file; what goes through a region's lines one by one ends
_HZ = (1e-9, 1e18)  # beyond them times are no longer numbers
_ROUNDED = 1e-5  # more than a float of 32 bits is off
_IDS = {"launch": "launches", "region": "regions", "unit": "units"}


class Damaged(TileProbeError):
    """What is wrong, in words that follow the name of the file."""


# -- the description ----------------------------------------------------------------------------------------------


def check_rows(kind: type, rows: Any) -> None:
    """Whether these can be rows of a side table."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Damaged(f"its {kind.__name__.lower()}s are no table")
    for row in rows:
        _check_row(kind, row)


def _check_row(kind: type, row: Mapping[str, Any]) -> None:
    hints = _hints(kind)
    for name, value in row.items():
        if name in hints and not _fits(value, hints[name]):
            raise Damaged(f"the {name} of a {kind.__name__.lower()} cannot be {str(value)[:60]!r}")


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return _finite(value)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if hint is NoneType or hint is None:
        return value is None
    if hint in (int, float):
        return _is_number(value, hint)
    if origin is tuple:
        return isinstance(value, list) and _each_fits(value, get_args(hint))
    if origin is dict:
        right = isinstance(value, dict)
        return right and all(_fits(part, get_args(hint)[1]) for part in value.values())
    if is_dataclass(hint):
        return _is_row(value, hint)
    if hasattr(hint, "_fields"):  # a named tuple
        return isinstance(value, list) and _each_fits(value, tuple(_hints(hint).values()))
    return isinstance(value, hint)


def _each_fits(values: list[Any], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(_fits(value, parts[0]) for value in values)
    return len(values) == len(parts) and all(map(_fits, values, parts))


def _is_row(value: Any, kind: Any) -> bool:
    """A dataclass is an object of its fields, or a list of them in their order."""
    hints = _hints(kind)
    if isinstance(value, list):
        return len(value) <= len(hints) and all(map(_fits, value, hints.values()))
    return isinstance(value, dict) and all(
        name in hints and _fits(v, hints[name]) for name, v in value.items()
    )


def _is_number(value: Any, kind: type) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int,) if kind is int else (int, float)):
        return False
    return math.isfinite(value) and (kind is float or abs(value) <= _LARGEST)


def _finite(value: Any) -> bool:
    """JSON of any shape whose numbers are numbers."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, int | float) or _is_number(value, float) or isinstance(value, bool)


def check_description(parts: Mapping[str, Any]) -> None:
    """Whether the side tables fit together, and their numbers mean something."""
    known = {name: _ids(name, parts[name]) for name in ("kernels", "launches", "regions", "units", "works")}
    for kernel in parts["kernels"]:
        _check_kernel(kernel)
    for name in ("launches", "regions", "works"):
        for row in parts[name]:
            if row.kernel not in known["kernels"]:
                raise Damaged(f"one of its {name} is of kernel {row.kernel}, and there is none")
    for region in parts["regions"]:
        lines = (region.first_line, region.last_line, *region.lines)
        if not 0 <= min(lines) <= max(lines) <= _LINES:
            raise Damaged(f"no source file has the lines of {region.name}, {min(lines)} to {max(lines)}")
    for row in (*parts["launches"], *parts["works"]):
        if not row.grid or min(row.grid) < 0 or math.prod(row.grid) > _LARGEST:
            raise Damaged(f"there is no grid of {row.grid} programs")
    for launch in parts["launches"]:
        if min(launch.duration_ns or 0.0, launch.preempted_ns or 0.0, launch.ran_ns or 0.0) < 0:
            raise Damaged(f"launch {launch.id} took less than no time")
        _check_counts(launch.losses)
    for work in parts["works"]:
        _check_counts(work)
    for name in ("regions", "units"):
        _check_tree(name, {row.id: row.parent for row in parts[name]})
    for domain in parts["domains"]:
        if not _HZ[0] <= domain.hz <= _HZ[1]:
            raise Damaged(f"a clock does not run at {domain.hz} Hz")
    _check_meta(parts["meta"])


def _ids(name: str, rows: Iterable[Any]) -> set[int]:
    ids = [row.id for row in rows]
    if len(set(ids)) < len(ids) or any(not 0 <= number < 2**32 for number in ids):
        raise Damaged(f"its {name} are not numbered one by one")
    return set(ids)


def _check_kernel(kernel: Any) -> None:
    if not _HZ[0] <= kernel.clock.hz <= _HZ[1] or not 1 <= kernel.clock.bits <= 64:
        raise Damaged(f"the clock of {kernel.name} has {kernel.clock.bits} bits and {kernel.clock.hz} Hz")
    if kernel.layout is not None:
        try:
            Layout.from_json(kernel.layout)
        except Exception as error:  # whatever a wrong document makes of it
            raise Damaged(f"the layout of {kernel.name} cannot be read: {error}") from error
    for name in ("cost_ticks", "error_ticks", "floor_ticks", "dose_ticks", "noise_ticks", "code_error"):
        value = kernel.calibration.get(name)
        if value is not None and not (_is_number(value, float) and value >= 0):
            raise Damaged(f"the {name} of {kernel.name} cannot be {value!r}")


def _check_counts(row: Any) -> None:
    for part in fields(row):
        value = getattr(row, part.name)
        if isinstance(value, int | float) and value < 0:
            raise Damaged(f"{part.name} cannot be {value}")


def _check_tree(name: str, parents: Mapping[int, int | None]) -> None:
    whole: set[int] = set()
    for number in parents:
        path: list[int] = []
        at: int | None = number
        while at is not None and at not in whole:
            if at in path or at not in parents:
                raise Damaged(f"its {name} lie in one another in a circle, or in one that is not there")
            path.append(at)
            at = parents[at]
        whole.update(path)


_META: dict[str, Any] = {
    "notes": list,
    "problems": dict,
    "busy": dict,
    "kernels_seen": dict[str, int],
    "switched_per_s": float | None,
    "kernels": tuple[str, ...],
}


def _check_meta(meta: Any) -> None:
    if not isinstance(meta, dict) or not _finite(meta):
        raise Damaged("what it says of the session is no table")
    for name, hint in _META.items():
        if name in meta and not _fits(meta[name], hint):
            raise Damaged(f"what it says of the session is not right: {name} is {str(meta[name])[:60]!r}")
    texts = [*meta.get("notes", ()), *meta.get("problems", {}).values()]
    busy = [share for kinds in meta.get("busy", {}).values() for share in _shares(kinds)]
    if not all(isinstance(text, str) for text in texts) or not all(
        _is_number(share, float) for share in busy
    ):
        raise Damaged("what it says of the session is not right: texts are texts, shares are numbers")


def _shares(kinds: Any) -> Iterable[Any]:
    return kinds.values() if isinstance(kinds, dict) else (None,)


# -- the tables ---------------------------------------------------------------------------------------------------


def check_table(
    frame: pl.LazyFrame, schema: Mapping[str, Any], ids: Mapping[str, Iterable[int]], free: set[str]
) -> None:
    """One pass over a table: no value is missing but in the columns that are `free`, floats are numbers, and ids of
    launches, regions and units are those of the description."""
    tests: list[pl.Expr] = []
    for name, dtype in schema.items():
        if name not in free:
            tests.append(pl.col(name).is_null().any().alias(f"{name} is missing in a row"))
        if dtype.is_float():
            tests.append((~pl.col(name).is_finite()).any().alias(f"{name} is no number in a row"))
        if name in _LIMITS:
            tests.append(
                (~pl.col(name).is_between(0, _LIMITS[name])).any().alias(f"{name} is no count in a row")
            )
        known = _IDS.get(name.removeprefix("from_").removeprefix("to_"))
        if known is not None:
            strange = ~pl.col(name).is_in(list(ids[known]))
            tests.append(strange.any().alias(f"{name} is none of its {known} in a row"))
    if "taken_ns" in schema:
        # What one stream issues may be awaited earlier by the clock of another: it lasted no time.
        lasted = pl.max_horizontal(pl.col("stop_ns") - pl.col("start_ns"), 0.0)
        more = pl.col("taken_ns") * (1 - _ROUNDED) > lasted + 1
        tests.append(more.any().alias("more was taken of a row than it lasted"))
    unread = [pl.col(name).hash().max().alias(name) for name in free if not schema[name].is_float()]
    found = frame.select(*tests, *unread).collect(engine="streaming").row(0, named=True)
    wrong = [text for text, yes in found.items() if yes is True]
    if wrong:
        raise Damaged(wrong[0])
