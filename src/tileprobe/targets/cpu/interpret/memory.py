"""Memory by address: the caller's tensors, and scratch that knows who wrote each byte.

Every access is checked against the known regions. Scratch is poisoned, and each of its bytes carries the number
of the buffer it was last written through (0: none), so that a read of somebody else's bytes is an error rather
than a plausible number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from xdsl.ir import Operation

from tileprobe.targets.cpu.interpret.errors import OutOfBoundsError, UnwrittenError, describe

POISON = 0xA5


class Extent(Protocol):
    """A named range of addresses, such as `bounds.Extent` of a tensor."""

    @property
    def name(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass
class Region:
    """Contiguous bytes of memory. `writers` is there for scratch only."""

    name: str
    begin: int
    data: np.ndarray
    writers: np.ndarray | None = None
    _views: dict[np.dtype, np.ndarray] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.begin + self.data.size

    def take(self, offsets: np.ndarray, kind: np.dtype) -> np.ndarray:
        if not (offsets % kind.itemsize).any():
            return self._view(kind)[offsets // kind.itemsize]
        return self.data[_bytes_at(offsets, kind.itemsize)].view(kind).reshape(-1)

    def put(self, offsets: np.ndarray, values: np.ndarray) -> None:
        size = values.dtype.itemsize
        if not (offsets % size).any():
            self._view(values.dtype)[offsets // size] = values
        else:
            self.data[_bytes_at(offsets, size)] = (
                np.ascontiguousarray(values).view(np.uint8).reshape(-1, size)
            )

    def _view(self, kind: np.dtype) -> np.ndarray:
        if kind not in self._views:
            self._views[kind] = self.data[: self.data.size // kind.itemsize * kind.itemsize].view(kind)
        return self._views[kind]


def _bytes_at(offsets: np.ndarray, size: int) -> np.ndarray:
    return offsets[:, None] + np.arange(size)


def at_address(name: str, begin: int, end: int) -> Region:
    """The bytes of this process from one address to another."""
    held = (ctypes.c_uint8 * (end - begin)).from_address(begin)
    return Region(name, begin, np.ctypeslib.as_array(held))


def scratch_of(count: int) -> Region:
    """Poisoned memory that was never written."""
    data = np.full(max(count, 8), POISON, np.uint8)
    return Region("scratch", data.ctypes.data, data, np.zeros(data.size, np.int32))


class Memory:
    """The regions programs may touch, and a journal of what a stage overwrote while it is asked for."""

    def __init__(self, extents: Sequence[Extent]):
        self.regions = _merged(extents)
        self._begins = np.array([r.begin for r in self.regions], np.int64)
        self._ends = np.array([r.end for r in self.regions], np.int64)
        self.apart = False  # whether stores leave the caller's memory as it is, and go to copies
        self._copied: set[int] = set()
        self._journal: list[tuple[Region, np.ndarray, np.ndarray, np.ndarray | None]] | None = None

    # -- the caller's tensors --------------------------------------------------------------------------------

    def load(self, addresses: np.ndarray, kind: np.dtype, op: Operation) -> np.ndarray:
        """Elements at addresses (a one-dimensional array) of the caller's memory."""
        held = np.dtype(np.uint8) if kind == np.bool_ else kind
        found = np.empty(addresses.size, held)
        for region, places in self._split(addresses, held.itemsize, op):
            found[places] = region.take(addresses[places] - region.begin, held)
        return found != 0 if kind == np.bool_ else found

    def store(self, addresses: np.ndarray, values: np.ndarray, op: Operation) -> None:
        values = values.astype(np.uint8) if values.dtype == np.bool_ else values
        for region, places in self._split(addresses, values.dtype.itemsize, op):
            offsets = addresses[places] - region.begin
            if self.apart:
                self._copy(region)
            self._remember(region, offsets, values.dtype)
            region.put(offsets, values[places])

    def _copy(self, region: Region) -> None:
        """From its first store on."""
        if region.begin not in self._copied:
            self._copied.add(region.begin)
            region.data = region.data.copy()
            region._views.clear()

    def _split(self, addresses: np.ndarray, size: int, op: Operation) -> list[tuple[Region, Any]]:
        """The region of each address, mostly one for all."""
        if not addresses.size:
            return []
        which = np.searchsorted(self._begins, addresses, side="right") - 1
        outside = which < 0
        if not outside.all():
            outside = outside | (addresses + size > self._ends[which])
        if outside.any():
            self._refuse(int(addresses[np.argmax(outside)]), size, op)
        if which[0] == which[-1] and (which == which[0]).all():
            return [(self.regions[which[0]], slice(None))]
        return [(self.regions[number], np.flatnonzero(which == number)) for number in np.unique(which)]

    def _refuse(self, address: int, size: int, op: Operation) -> None:
        message = f"{describe(op)} touches {size} bytes at {address:#x}, outside every tensor"
        if self.regions:
            near = min(self.regions, key=lambda r: max(r.begin - address, address - r.end + 1, 0))
            message += f"; {near.name} is at {near.begin:#x} to {near.end:#x}"
        raise OutOfBoundsError(message)

    # -- scratch ---------------------------------------------------------------------------------------------

    def poison(self, scratch: Region, offset: int, count: int) -> None:
        """A buffer begins its life here: whatever was in its place is gone."""
        assert scratch.writers is not None
        scratch.data[offset : offset + count] = POISON
        scratch.writers[offset : offset + count] = 0

    def read(
        self, region: Region, offsets: np.ndarray, kind: np.dtype, owner: int, op: Operation
    ) -> np.ndarray:
        """Elements of a buffer, all written through that buffer."""
        held = np.dtype(np.uint8) if kind == np.bool_ else kind
        if region.writers is not None:
            first, last = region.writers[offsets], region.writers[offsets + (held.itemsize - 1)]
            foreign = (first != owner) | (last != owner)
            if foreign.any():
                _refuse_read(region, int(offsets[np.argmax(foreign)]), op)
        found = region.take(offsets, held)
        return found != 0 if kind == np.bool_ else found

    def write(self, region: Region, offsets: np.ndarray, values: np.ndarray, owner: int) -> None:
        values = values.astype(np.uint8) if values.dtype == np.bool_ else values
        self._remember(region, offsets, values.dtype)
        region.put(offsets, values)
        assert region.writers is not None, "tables are never written"
        for byte in range(values.dtype.itemsize):
            region.writers[offsets + byte] = owner

    # -- undoing ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """From here on, what is overwritten is remembered."""
        self._journal = []

    def commit(self) -> None:
        self._journal = None

    def undo(self) -> None:
        """Put back what was there at `begin`."""
        for region, offsets, old, writers in reversed(self._journal or []):
            # of an element written twice in one go, both entries hold the same old value
            region.put(offsets, old)
            if writers is not None and region.writers is not None:
                for byte in range(old.dtype.itemsize):
                    region.writers[offsets + byte] = writers[byte]
        self._journal = []

    def touched(self) -> dict[int, tuple[Region, np.ndarray]]:
        """The bytes written since `begin`, as offsets by region."""
        found: dict[int, tuple[Region, np.ndarray]] = {}
        for region, offsets, old, _ in self._journal or []:
            fresh = _bytes_at(offsets, old.dtype.itemsize).reshape(-1)
            _, known = found.get(region.begin, (region, np.empty(0, np.int64)))
            found[region.begin] = (region, np.union1d(known, fresh))
        return found

    def _remember(self, region: Region, offsets: np.ndarray, kind: np.dtype) -> None:
        if self._journal is None:
            return
        writers = None
        if region.writers is not None:
            writers = np.stack([region.writers[offsets + byte] for byte in range(kind.itemsize)])
        self._journal.append((region, offsets.copy(), region.take(offsets, kind), writers))


def _refuse_read(region: Region, offset: int, op: Operation) -> None:
    assert region.writers is not None
    if region.writers[offset]:
        why = "was last written as part of another buffer"
    else:
        why = "was not written since its buffer was allocated, or was given to another buffer"
    raise UnwrittenError(f"{describe(op)} reads byte {offset} of the scratch memory, which {why}")


def _merged(extents: Sequence[Extent]) -> list[Region]:
    """Regions in order; tensors that overlap (views of one storage) are one region."""
    merged: list[tuple[list[str], int, int]] = []
    for extent in sorted((e for e in extents if e.end > e.begin), key=lambda e: e.begin):
        if merged and extent.begin < merged[-1][2]:
            names, begin, end = merged[-1]
            merged[-1] = ([*names, extent.name], begin, max(end, extent.end))
        else:
            merged.append(([extent.name], extent.begin, extent.end))
    return [at_address("/".join(dict.fromkeys(names)), begin, end) for names, begin, end in merged]
