"""The memory that Triton's launcher passes along with one launch: our table, whoever else provides such memory.

Triton has one allocator of profile scratch for the whole process, which other profilers set as well (Proton does). Ours
is in its place for the time of one launch and serves that launch's thread alone; launches of other threads meanwhile
get what they would have got.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton.runtime import _allocation

_one_at_a_time = threading.RLock()


class Address:
    """Memory as Triton's launcher takes it."""

    def __init__(self, address: int) -> None:
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class _Ours:
    def __init__(self, before: Any, address: int) -> None:
        self.before, self.table = before, Address(address)
        self.thread = threading.get_ident()
        self.asked = 0  # bytes

    def __call__(self, size: int, alignment: int, stream: int | None) -> Any:
        if threading.get_ident() == self.thread:
            self.asked = size
            return self.table
        if not isinstance(self.before, _allocation.NullAllocator):
            return self.before(size, alignment, stream)
        from triton.runtime import driver

        return driver.active.allocate_default_profile_scratch(size, alignment, stream)


@contextmanager
def provided(address: int) -> Iterator[_Ours]:
    """A launch of this thread in the block gets this memory."""
    holder = _allocation._profile_allocator
    with _one_at_a_time:
        ours = _Ours(holder.get(), address)
        holder.set(ours)
        try:
            yield ours
        finally:
            if holder.get() is ours:  # a profiler that starts in a launch hook keeps its own
                holder.set(ours.before)
