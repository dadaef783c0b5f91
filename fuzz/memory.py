"""Tensors between guard pages: what touches memory outside of them dies, what writes into the slack is seen.

A tensor's pages lie between two that may not be touched. It is put directly at the end of its pages or directly
at their beginning; the slack on the other side holds a junk pattern that must still be there afterwards.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
JUNK = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


def _protect(address: int, size: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


class Guarded:
    """A tensor as Triton sees one (`data_ptr`, `dtype`), with its bits as a NumPy array."""

    def __init__(self, bits: np.ndarray, dtype: str, at_end: bool):
        size = max(bits.nbytes, 1)
        inside = -(-size // PAGE) * PAGE
        self._map = mmap.mmap(-1, inside + 2 * PAGE)
        whole = np.frombuffer(self._map, np.uint8)
        base = whole.ctypes.data
        _protect(base, PAGE)
        _protect(base + PAGE + inside, PAGE)
        pages = whole[PAGE : PAGE + inside]
        pages[:] = JUNK
        start = inside - bits.nbytes if at_end else 0
        self._slack = [pages[:start], pages[start + bits.nbytes :]]
        self.bits = pages[start : start + bits.nbytes].view(bits.dtype)
        self.bits[:] = bits
        self.dtype = dtype
        self.shape = bits.shape

    def damaged(self) -> bool:
        """Whether something wrote next to the tensor."""
        return any((part != JUNK).any() for part in self._slack)

    def data_ptr(self) -> int:
        return self.bits.ctypes.data

    def element_size(self) -> int:
        return self.bits.itemsize

    def numel(self) -> int:
        return self.bits.size

    def stride(self, dim: int | None = None) -> Any:
        return (1,) if dim is None else 1
