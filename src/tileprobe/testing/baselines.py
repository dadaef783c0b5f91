"""Figures of launches that are kept beside the tests: a TOML file with a table for each name, sorted.

In come results; out go what differs from the file, or a file that is written anew: whole or not at all, and by one
process at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.files import write_file
from tileprobe.sim import Result

HEAD = (
    "# What launches on simulated GPUs took. Written by `pytest --tileprobe-update`; tests compare with it.\n"
)
ABOUT = ("kernel", "machine", "model", "triton")  # of an entry: what its figures are of


@dataclass(frozen=True)
class Change:
    figure: str
    was: int | None
    now: int | None

    @property
    def share(self) -> float | None:
        """How much more there is; None where that has no meaning."""
        return (self.now - self.was) / self.was if self.was and self.now is not None else None


def entry(result: Result) -> dict[str, Any]:
    """What is kept of a launch."""
    import triton

    about = {"kernel": result.kernel, "machine": result.machine, "model": result.model}
    return {**about, "triton": triton.__version__, **figures(result)}


def figures(result: Result) -> dict[str, int]:
    return {
        "cycles": result.cycles,
        "instructions": result.instructions,
        "registers": result.registers,
        "spill_bytes": result.spill_bytes,
        "shared_bytes": result.shared_bytes,
        "occupancy_warps": result.occupancy_warps,
        "bank_conflicts": result.conflicts,
        "dram_bytes_read": result.counters["dram_bytes_read"],
        "dram_bytes_written": result.counters["dram_bytes_written"],
        "races": len(result.races),
    }


def differences(
    kept: Mapping[str, Any], now: Mapping[str, Any], tolerance: float | Mapping[str, float]
) -> list[Change]:
    """Figures of the file that have changed by more than a share of what they were."""
    _check_tolerance(tolerance, now)
    found = []
    for name, was in kept.items():
        if name in ABOUT or was == now.get(name):
            continue
        change = Change(name, was, now.get(name))
        room = tolerance.get(name, 0.0) if isinstance(tolerance, Mapping) else tolerance
        if change.share is None or abs(change.share) > room:
            found.append(change)
    return found


def _check_tolerance(tolerance: float | Mapping[str, float], now: Mapping[str, Any]) -> None:
    shares = tolerance.values() if isinstance(tolerance, Mapping) else [tolerance]
    if not all(0 <= share <= 1 for share in shares):
        raise TileProbeError(f"a tolerance is a share between 0 and 1, such as 0.02; not {tolerance}")
    figures = [name for name in now if name not in ABOUT]
    unknown = [name for name in tolerance if name not in figures] if isinstance(tolerance, Mapping) else []
    if unknown:
        raise TileProbeError(f"there is no figure {unknown[0]!r} to tolerate; there are {', '.join(figures)}")


def read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # tomllib's own error is a ValueError
        raise TileProbeError(f"{path} cannot be read: {error}") from error
    for name, held in found.items():
        right = isinstance(held, dict) and all(
            isinstance(value, str if key in ABOUT else int) for key, value in held.items()
        )
        if not right or not held:
            raise TileProbeError(
                f"{path}: {name} is no table of whole numbers; remove it and make it anew with --tileprobe-update"
            )
    return found


def update(path: Path, name: str, new: Mapping[str, Any]) -> dict[str, Any] | None:
    """Puts an entry into the file. Returns the one before it."""
    with _alone(path):
        held = read(path)
        before = held.get(name)
        if before != new:
            held[name] = dict(new)
            write_file(path, _text(held))
    return before


def _text(entries: Mapping[str, Mapping[str, Any]]) -> str:
    tables = [
        "\n".join([f"[{json.dumps(name, ensure_ascii=False)}]", *map(_line, held.items())])
        for name, held in sorted(entries.items())
    ]
    return "\n".join([HEAD, "\n\n".join(tables), ""])


def _line(item: tuple[str, Any]) -> str:
    key, value = item
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Processes that update one file do so one after another. The lock lies where it is nobody's litter."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:24]
    lock = Path(tempfile.gettempdir()) / f"tileprobe-{os.getuid()}-{digest}.lock"
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
