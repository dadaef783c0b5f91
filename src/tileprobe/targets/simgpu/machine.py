"""A GPU as data: what programs may use of it. Each machine is a file in `machines/`, with the source of each number;
one that `inherits` from another lists its differences alone."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tileprobe.ir.amounts import Roofs

_FOLDER = Path(__file__).parent / "machines"
_PARTITIONS, _LANES = 4, 32  # of a multiprocessor, and of a warp


@dataclass(frozen=True)
class Timing:
    """How long things take: cycles, unless they say other."""

    clock_mhz_sustained: int
    launch_cycles: int
    events_ns: int
    program_interval: float
    fma_interval: float
    alu_interval: float
    half_interval: float
    xu_interval: float
    double_interval: float
    uniform_interval: float
    latency_fma: int
    latency_half: int
    latency_double: int
    latency_xu: int
    latency_uniform: int
    latency_tensor: int
    tensor_fma: int
    tensor_fma_double: int
    tensor_share: float
    address_interval: int
    queue: int
    shared_interval: int
    latency_shared: int
    latency_l1: int
    latency_copy: int
    latency_l2: int
    latency_l2_far: int
    latency_dram: int
    l2_bytes_cycle: float
    l2_slices: int
    way_bytes_cycle: int
    l2_store_bytes_cycle: float
    l2_changed: float
    dram_bytes_second: float
    dram_channels: int
    dram_turn: float
    store_ahead: int
    l1_bytes: int
    latency_barrier: int
    read_hold: int
    latency_atomic: int
    latency_tma: int
    tma_gap: int
    latency_arrive: int
    latency_wait: int
    latency_product: int


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
    timing: Timing

    @property
    def capability(self) -> tuple[int, int]:
        return self.arch // 10, self.arch % 10

    def sustained(self) -> Machine:
        """With tensor cores at work, as the power limit has it."""
        return replace(self, clock_mhz=self.timing.clock_mhz_sustained)

    def roofs(self) -> Roofs:
        """At the clock that launches are timed with."""
        cycles, timing = self.multiprocessors * self.clock_mhz * 1e6, self.timing
        lanes = _PARTITIONS * _LANES / timing.fma_interval
        return Roofs(
            unit="chip",
            flops_per_s=(("f16 tensor cores", 2 * timing.tensor_fma * cycles), ("f32", 2 * lanes * cycles)),
            bytes_per_s=(("DRAM", timing.dram_bytes_second), ("L2", timing.l2_bytes_cycle * cycles)),
            said="by its machine file",
        )


def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def machine(name: str) -> Machine:
    found = _numbers(name)
    return Machine(**{**found, "timing": Timing(**found["timing"])})


def _numbers(name: str) -> dict[str, Any]:
    """What a machine's file says, over what the one it inherits from does."""
    found = tomllib.loads((_FOLDER / f"{name}.toml").read_text())
    parent = found.pop("inherits", None)
    if parent is None:
        return found
    held = _numbers(parent)
    return {**held, **found, "timing": held["timing"] | found.get("timing", {})}
