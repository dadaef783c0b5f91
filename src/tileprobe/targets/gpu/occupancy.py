"""How many warps of a kernel a multiprocessor holds at once, and what limits that.

In come registers, threads and shared memory of a kernel; out go warps and the limiter. The limits are those of NVIDIA's
CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor has. Registers are given out to warps in pieces of `register_unit`."""

    warps: int
    programs: int
    shared_bytes: int
    registers: int = 65536
    register_unit: int = 256
    shared_unit: int = 128
    reserved_shared_bytes: int = 1024  # of each program, taken by the system
    tensor_columns: int = 0  # of tensor memory (PTX ISA, "Tensor Memory")


KIB = 1024
MULTIPROCESSORS = {
    "80": Multiprocessor(64, 32, 164 * KIB),
    "86": Multiprocessor(48, 16, 100 * KIB),
    "89": Multiprocessor(48, 24, 100 * KIB),
    "90": Multiprocessor(64, 32, 228 * KIB),
    "100": Multiprocessor(64, 32, 228 * KIB, tensor_columns=512),
    "120": Multiprocessor(48, 24, 100 * KIB),
}


@dataclass(frozen=True)
class Occupancy:
    warps: int
    limiter: str  # registers, shared memory, tensor memory, programs, warps


def occupancy(
    machine: str, *, registers: int, warps: int, shared_bytes: int, tensor_columns: int = 0
) -> Occupancy | None:
    """Of a kernel with so many registers a thread, warps, bytes of shared memory and columns of tensor memory;
    None when the machine is not known."""
    has = MULTIPROCESSORS.get(machine)
    if has is None:
        return None
    per_warp = _up(registers * 32, has.register_unit)
    # A multiprocessor has four parts, each with registers of its own.
    by_registers = (has.registers // 4 // max(per_warp, 1)) * 4 // warps
    shared = _up(shared_bytes + has.reserved_shared_bytes, has.shared_unit)
    programs = {
        "registers": by_registers,
        "shared memory": has.shared_bytes // shared,
        "programs": has.programs,
        "warps": has.warps // warps,
    }
    if tensor_columns and has.tensor_columns:
        programs["tensor memory"] = has.tensor_columns // tensor_columns
    limiter = min(programs, key=lambda name: programs[name])
    if programs["warps"] == programs[limiter]:
        limiter = "warps"
    return Occupancy(programs[limiter] * warps, limiter)


@dataclass(frozen=True)
class ComputeUnit:
    """What four SIMDs share: a compute unit of CDNA, a work group processor of RDNA."""

    waves: int
    programs: int
    shared_bytes: int
    shared_unit: int


# CDNA 3 and CDNA 4 ISA ("LDS Allocation"), RDNA 3 ISA (3.3.4); programs: barriers, LLVM's getMaxWorkGroupsPerCU.
COMPUTE_UNITS = {
    "gfx942": ComputeUnit(32, 16, 64 * KIB, 512),
    "gfx950": ComputeUnit(32, 16, 160 * KIB, 1280),
    "gfx1100": ComputeUnit(64, 32, 128 * KIB, 1024),
}


def amd_occupancy(machine: str, *, waves: int, warps: int, shared_bytes: int) -> Occupancy | None:
    """The same for AMD: of a kernel whose registers allow so many `waves`, as LLVM says, which does not know what
    Triton takes of shared memory."""
    has = COMPUTE_UNITS.get(machine)
    if has is None:
        return None
    programs = {
        "registers": waves // warps,
        "shared memory": has.shared_bytes // _up(max(shared_bytes, 1), has.shared_unit),
        "programs": has.programs if warps > 1 else has.waves,
        "warps": has.waves // warps,
    }
    limiter = min(programs, key=lambda name: programs[name])
    if programs["warps"] == programs[limiter]:
        limiter = "warps"
    return Occupancy(programs[limiter] * warps, limiter)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
