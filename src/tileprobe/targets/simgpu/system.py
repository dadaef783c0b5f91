"""Functions that the driver would bring: what a kernel prints, and asserts that fail.

In comes a worker whose program called one; out go lines on the standard output, or the error to raise. Arguments are in
R4 and up, as the calling convention has them; formats and texts are in memory that the cubin brings.
"""

from __future__ import annotations

import ctypes
import re
import struct
import sys

import numpy as np

from tileprobe.targets.simgpu.blocks import Worker
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.errors import KernelFault

_LONGEST = 4096  # bytes of a text
_FIELD = re.compile(rb"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?([diouxXeEfFgGcsp%])")


class KernelAssertion(KernelFault, AssertionError):
    """A `tl.device_assert` that failed."""


class System:
    """The registers of the lanes that called."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.warp = worker.get(at.CTA_ERROR_WARP)
        self.mask = worker.get(at.CTA_ERROR_MORE)
        block = worker.warp(self.warp)
        self.rows = block[at.W_REGISTERS :].view(np.uint32).reshape(-1, at.LANES)

    @property
    def lanes(self) -> list[int]:
        return [lane for lane in range(at.LANES) if self.mask >> lane & 1]

    def word(self, register: int, lane: int) -> int:
        return int(self.rows[register, lane])

    def pair(self, register: int, lane: int) -> int:
        return self.word(register, lane) | self.word(register + 1, lane) << 32

    def text(self, address: int) -> bytes:
        """A text that ends with a zero byte, in memory that the cubin brings."""
        for held in self.worker.image.keep:
            start = held.ctypes.data
            if start <= address < start + len(held):
                data = held[address - start : address - start + _LONGEST].tobytes()
                return data.split(b"\0", 1)[0]
        return b"?"

    def local(self, address: int, lane: int, size: int) -> bytes:
        """Bytes of a lane's local memory, at a generic address."""
        offset = address - at.LOCAL_WINDOW
        if not 0 <= offset <= self.worker.current.local_bytes - size:
            return bytes(size)
        base = self.worker.current.local.ctypes.data + self.warp * self.worker.current.local_bytes * at.LANES
        words = range(offset >> 2, (offset + size + 3) >> 2)
        data = b"".join(ctypes.string_at(base + n * at.ROW + 4 * lane, 4) for n in words)
        return data[offset & 3 :][:size]


def call(worker: Worker) -> None:
    """Does what the function does that the program called; raises for an assert."""
    name = worker.image.functions.get(worker.get(at.CTA_ERROR_ADDRESS))
    system = System(worker)
    if name == "vprintf":
        _print(system)
    elif name == "__assertfail":
        raise _failed(system)
    else:
        raise KernelFault(f"kernel {worker.image.program.name}: it calls {name}, which is not known here")


def _failed(system: System) -> KernelAssertion:
    lane = system.lanes[0]
    message, file = (system.text(system.pair(register, lane)).decode(errors="replace") for register in (4, 6))
    worker = system.worker
    x, y, z = (worker.get(place) for place in (at.CTA_X, at.CTA_Y, at.CTA_Z))
    return KernelAssertion(
        f"{file}:{system.word(8, lane)}: kernel {worker.image.program.name}, program ({x}, {y}, {z}), warp "
        f"{system.warp}, lane {lane}: assertion failed: {message}"
    )


def _print(system: System) -> None:
    for lane in system.lanes:
        form, place = system.text(system.pair(4, lane)), system.pair(6, lane)
        sys.stdout.write(_formatted(system, form, place, lane).decode(errors="replace"))
    sys.stdout.flush()


def _formatted(system: System, form: bytes, place: int, lane: int) -> bytes:
    """As C's printf; arguments stand one behind the other, each at a multiple of its size."""
    out, end, offset = b"", 0, 0
    for found in _FIELD.finditer(form):
        out += form[end : found.start()]
        end = found.end()
        kind, spec = found[1], found[0]
        if kind == b"%":
            out += b"%"
            continue
        wide = kind in b"eEfFgGsp" or b"ll" in spec or b"l" in spec or b"z" in spec
        size = 8 if wide else 4
        offset = -(-offset // size) * size
        data = system.local(place + offset, lane, size)
        offset += size
        out += _one(system, spec, kind, data)
    return out + form[end:]


def _one(system: System, spec: bytes, kind: bytes, data: bytes) -> bytes:
    plain = re.sub(rb"hh|h|ll|l|z", b"", spec[:-1]) + kind
    if kind in b"eEfFgG":
        return plain % struct.unpack("<d", data)
    value = int.from_bytes(data, "little", signed=kind in b"di")
    if kind == b"s":
        return plain % system.text(value)
    if kind == b"p":
        return b"%#x" % value
    return (plain.replace(b"u", b"d")) % value
