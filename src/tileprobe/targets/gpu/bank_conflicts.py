"""Bank conflicts that layouts imply: how often shared memory must be asked for what one instruction of a warp wants.

In comes a compiled kernel; out go the accesses to shared memory in its final TTGIR, each with the width of its
instruction, its wavefronts and the fewest there could be. Where every thread reads or writes is known from the layouts
of registers and of shared memory, which Triton gives as linear maps; no argument of the kernel matters. What a
conversion between layouts does with its scratch is not in the IR; copies by TMA and products that read shared
memory themselves are left out.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError

_BANK_BYTES = 4
# CUDA C++ Programming Guide, "Shared Memory"; CDNA 4 ISA: 64 banks; CDNA 3 and RDNA 3 ISA: 32.
_BANKS = {"gfx950": 64}
_WIDTHS = (16, 8, 4, 2, 1)  # bytes of a thread in one instruction
MATRICES = ("LDSM", "STSM")  # instructions that move eight rows at a time
_ROW = 16  # bytes of a row of a matrix that LDSM reads or STSM writes; there are eight
_MEMDESC = re.compile(r"!ttg\.memdesc<((?:\d+x)+)(\w+), .*?(?:, ((?:\d+x)*\d+))?>$")
UNKNOWN = "unknown"  # the layouts are no linear maps, as AMD's padded and rotating ones
_LINEAR = re.compile(r"#ttg\.(swizzled_shared|nvmma_shared|shared_linear)<")
_PLACE = re.compile(r'"([^"]*)":(\d+):\d+')
_LOADS = ("ttg.local_load",)
_STORES = ("ttg.local_store", "ttg.local_alloc", "ttg.async_copy_global_to_local")


@dataclass(frozen=True)
class Access:
    """One op: `wavefronts` of all its instructions in one warp, and how many it would take without conflicts."""

    op: str
    file: str
    line: int
    instruction: str  # "16 bytes a thread", "matrix", or unknown
    wavefronts: int
    least: int
    count: int = 1  # ops alike on this line

    @property
    def extra(self) -> int:
        return self.wavefronts - self.least


def bank_conflicts(kernel: Any, *, matrices: bool) -> list[dict[str, Any]]:
    """The accesses of a kernel; with `matrices` its machine code has instructions that move eight rows at a time.

    In a process of its own: Triton's linear layouts leave objects behind, of which Python complains when it ends."""
    target = kernel.metadata.target
    asked = (kernel.asm["ttgir"], target.backend, target.arch, target.warp_size, matrices)
    command = [sys.executable, "-m", "tileprobe.targets.gpu.bank_conflicts"]
    made = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    if made.returncode:
        raise TileProbeError(f"the layouts of {kernel.metadata.name} cannot be read: {made.stderr[-500:]}")
    return json.loads(made.stdout)


def accesses_of(
    ttgir: str, backend: str, arch: int | str, warp_size: int, matrices: bool
) -> list[dict[str, Any]]:
    """The accesses in final TTGIR, by line."""
    from triton._C.libtriton import gluon_ir, ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    from tileprobe.ir.bridge import parse_triton

    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget(backend, arch, warp_size)).load_dialects(context)
    module: Any = parse_triton(ttgir, context)
    builder = gluon_ir.GluonOpBuilder(context)
    banks = _BANKS.get(str(arch), 32)
    found: Counter[Access] = Counter()

    def look(op: Any) -> None:
        ends = _ends(op)
        access = None if ends is None else _access(builder, op, *ends, banks, matrices)
        if access is not None:
            found[access] += 1

    module.walk(look)
    ordered = sorted(found.items(), key=lambda item: (item[0].file, item[0].line, item[0].op))
    return [asdict(access) | {"count": count, "extra": access.extra} for access, count in ordered]


def _ends(op: Any) -> tuple[Any, Any] | None:
    """The tensor and the shared memory of an access."""
    name = op.get_name()
    if name in _LOADS:
        return op.get_result(0), op.get_operand(0)
    if name == "ttg.local_alloc":
        return (op.get_operand(0), op.get_result(0)) if op.get_num_operands() else None
    return (op.get_operand(0), op.get_operand(1)) if name in _STORES else None


def _access(builder: Any, op: Any, tensor: Any, memory: Any, banks: int, matrices: bool) -> Access | None:
    kind = _MEMDESC.match(str(memory.get_type()))
    if kind is None:
        return None
    shape = [int(part) for part in kind[1].split("x")[:-1]]
    whole = [int(part) for part in kind[3].split("x")][-len(shape) :] if kind[3] else shape
    size = _element_bytes(kind[2])
    unknown = Access(op.get_name(), *_place(op, memory), UNKNOWN, 0, 0)
    if not _LINEAR.search(str(memory.get_type())):
        return unknown
    try:
        registers = builder.to_linear_layout(
            builder.get_gluon_layout_from_tensor(tensor)._to_ir(builder), shape
        )
        shared = builder.to_linear_layout(
            builder.get_gluon_layout_from_memdesc(memory)._to_ir(builder), whole
        )
        addresses = _addresses(registers, shared, whole, size)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return unknown
    file, line = _place(op, memory)
    asynchronous = op.get_name() == "ttg.async_copy_global_to_local"
    rows = matrix_rows(addresses, size) if matrices and not asynchronous else None
    if rows is not None:
        counted = [_wavefronts(one, _ROW, banks) for one in rows]
        return Access(op.get_name(), file, line, "matrix", *map(sum, zip(*counted)))
    width, vectors = vectorised(addresses, size)
    counted = [_wavefronts(part, width, banks) for one in vectors for part in _phases(one, width, banks)]
    return Access(op.get_name(), file, line, f"{width} bytes a thread", *map(sum, zip(*counted)))


def _place(op: Any, memory: Any) -> tuple[str, int]:
    """File and line of an op; one without a result is known by the memory that it stores to."""
    place = _PLACE.search(str((op.get_result(0) if op.get_num_results() else memory).get_loc()))
    return (place[1], int(place[2])) if place else ("", 0)


def _element_bytes(name: str) -> int:
    digits = re.search(r"\d+", name)
    assert digits is not None, name
    return max(1, int(digits[0]) // 8)


def _addresses(registers: Any, shared: Any, shape: list[int], size: int) -> np.ndarray:
    """The byte of shared memory for each register of each thread of the first warp, (registers, threads)."""
    coordinates = (
        _spanned(registers.reg_bases, len(shape))[:, None] ^ _spanned(registers.lane_bases, len(shape))[None]
    )
    offsets = _spanned(shared.offset_bases, len(shape))
    places = np.zeros(math.prod(shape), np.int64)
    places[_flat(offsets, shape)] = np.arange(len(offsets))
    found = size * places[_flat(coordinates, shape)]
    _, first = np.unique(found, axis=0, return_index=True)
    return found[np.sort(first)]  # registers may hold the same


def _flat(coordinates: np.ndarray, shape: list[int]) -> np.ndarray:
    strides = np.array([math.prod(shape[n + 1 :]) for n in range(len(shape))])
    return coordinates @ strides


def _spanned(bases: list[list[int]], rank: int) -> np.ndarray:
    """What a linear map gives for 0, 1, 2, ..."""
    found = np.zeros((1, rank), np.int64)
    for base in bases:
        found = np.concatenate([found, found ^ np.array(base)])
    return found


def vectorised(addresses: np.ndarray, size: int) -> tuple[int, np.ndarray]:
    """The widest access that all threads can make alike, and the first byte of each, (instructions, threads)."""
    for width in _WIDTHS:
        if width < size or addresses.shape[0] % (width // size):
            continue
        ordered = addresses[np.argsort(addresses[:, 0])].reshape(-1, width // size, addresses.shape[1])
        run = ordered[:, :1] + size * np.arange(width // size)[None, :, None]
        if (ordered == run).all() and (ordered[:, 0] % width == 0).all():
            return width, ordered[:, 0]
    return size, addresses


def matrix_rows(addresses: np.ndarray, size: int) -> np.ndarray | None:
    """The rows of 16 bytes that each matrix is made of, (matrices, 8); None where no such instruction fits: four bytes
    of each thread of a warp of 32 are one matrix."""
    per = 4 // size if size <= 4 else 0
    if not per or addresses.shape[1] != 32 or addresses.shape[0] % per:
        return None
    rows = [np.unique(group // _ROW) for group in addresses.reshape(-1, per, 32)]
    if any(len(one) != 8 for one in rows) or addresses.size * size != 128 * len(rows):
        return None
    return _ROW * np.stack(rows)


def _phases(addresses: np.ndarray, width: int, banks: int) -> list[np.ndarray]:
    """Threads whose accesses are made together: as many as there are bytes in all banks."""
    several = max(1, banks * _BANK_BYTES // max(width, _BANK_BYTES))
    return [addresses[n : n + several] for n in range(0, len(addresses), several)]


def _wavefronts(addresses: np.ndarray, width: int, banks: int) -> tuple[int, int]:
    """How often the banks are asked, and how often they would have to be at least."""
    words = np.arange(max(1, width // _BANK_BYTES))
    asked = np.unique((addresses[:, None] // _BANK_BYTES + words).ravel())
    return int(np.bincount(asked % banks).max()), -(-len(asked) // banks)


if __name__ == "__main__":
    print(json.dumps(accesses_of(*json.load(sys.stdin))))
