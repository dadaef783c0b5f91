"""A GPU as data: what programs may use of it. Each machine is a file in `machines/`, with the source of each number."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "machines"


@dataclass(frozen=True)
class Machine:
    name: str
    arch: int
    multiprocessors: int
    shared_bytes: int  # that one program can have
    shared_bytes_multiprocessor: int
    warps_multiprocessor: int
    registers_multiprocessor: int
    programs_multiprocessor: int
    threads_program: int
    registers_thread: int
    memory_bytes: int
    cache_bytes: int
    clock_mhz: int

    @property
    def capability(self) -> tuple[int, int]:
        return self.arch // 10, self.arch % 10


def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def machine(name: str) -> Machine:
    return Machine(**tomllib.loads((_FOLDER / f"{name}.toml").read_text()))
