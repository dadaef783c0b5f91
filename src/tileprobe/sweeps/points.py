"""Points: settings with a digest. Axes as the user writes them in, every combination out, one after the other.

The digest of a point is over the function, the version of what computes it, the settings, and the files that these
name as they are now: two points of one digest have one result.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError

MOST = 10_000_000  # points of a grid: more would not end, and their results would not fit


@dataclass(frozen=True)
class Work:
    """What runs at every point. `identity` is all that a result depends on beside the settings; `seen` gives more of
    it for one point, such as the content of files that its settings name."""

    call: str  # module:function, which takes the settings and returns what JSON can say
    identity: str
    files: Mapping[str, str] = field(default_factory=dict)  # path -> digest: the same on every worker
    seen: Callable[[dict[str, Any]], Mapping[str, str]] | None = None
    seen_files: Callable[[dict[str, Any]], tuple[str, ...]] | None = None
    first_alone: bool = False  # the first point compiles what all need

    def digest(self, settings: Mapping[str, Any]) -> str:
        seen = dict(self.seen(dict(settings))) if self.seen is not None else {}
        said = [self.call, self.identity, dict(self.files), dict(settings), seen]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:24]

    def task(self, point: Point) -> Task:
        named = self.seen_files(point.settings) if self.seen_files is not None else ()
        files = {**self.files, **{path: file_digest(path) for path in named}}
        return Task(point.digest, self.call, point.settings, package_digest(), os.getcwd(), files)


@dataclass(frozen=True)
class Point:
    digest: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A point on its way to a worker."""

    point: str
    call: str
    settings: dict[str, Any]
    package: str
    folder: str  # that relative paths are from
    files: dict[str, str]

    def to_json(self) -> str:
        return json.dumps(vars(self))


def parse_axes(
    texts: list[str], option: str, value: Callable[[str, str], Any], example: str
) -> dict[str, list[Any]]:
    """`["context=100,1000", "read_us=20,30"]` as names and values; `value(name, text)` reads one."""
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values or not name:
            raise TileProbeError(f"{option} {text!r}: write NAME=A,B,..., such as {example}")
        if name in axes:
            raise TileProbeError(f"{option} {name} is given twice")
        axes[name] = [value(name, one.strip()) for one in values.split(",")]
        twice = [one for n, one in enumerate(axes[name]) if one in axes[name][:n]]
        if twice:
            raise TileProbeError(f"{option} {name}: {twice[0]} stands there twice")
    count = math.prod(map(len, axes.values()))
    if count > MOST:
        raise TileProbeError(
            f"{count:,} points are more than a grid can have ({MOST:,}): give fewer values, or search (`tileprobe llm"
            " search`), which does not try them all"
        )
    return axes


def grid(fixed: Mapping[str, Any], axes: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Settings of every combination."""
    for values in itertools.product(*axes.values()):
        yield {**fixed, **dict(zip(axes, values))}


def file_digest(path: str) -> str:
    return _file_digest(path, *_stamp(path))


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError as error:
        raise TileProbeError(f"{path} cannot be read: {error.strerror}") from None
    return found.st_size, found.st_mtime_ns


@cache
def _file_digest(path: str, size: int, changed: int) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:24]
    except OSError as error:
        raise TileProbeError(f"{path} cannot be read: {error.strerror}") from None


@cache
def package_digest() -> str:
    """Of all sources of this package: driver and workers have to be of one version."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".toml", ".json")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:24]
