"""Generators of random numbers for `cuda`. Their state is that of a GPU's, a seed and an offset that every operator
moves on, since scripts and kernels take it apart; the numbers are the CPU's, drawn anew from these two by each
operator."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

_SEED = 67280421310721  # torch's default
_STEP = 4  # numbers of one call of Philox: by how much an operator moves the offset on, at least
_WORD = 2**64 - 1
_known: WeakValueDictionary[int, Any] = WeakValueDictionary()


def known(given: Any) -> Any:
    """The generator for `cuda` that torch's C++ side hands over, which wraps it anew; None for one of the CPU."""
    return _known.get(given._cdata)


def make(torch: Any) -> Any:
    """`torch.Generator` that also makes generators for `cuda`."""
    plain = torch.Generator

    class Kind(type(plain)):
        def __instancecheck__(self, instance: Any) -> bool:
            return isinstance(instance, plain)

    class Generator(plain, metaclass=Kind):
        def __new__(cls, device: Any = "cpu") -> Any:
            if torch.device(device).type != "cuda":
                return plain(device)
            return plain.__new__(cls, "cpu")

        def __init__(self, device: Any = "cpu") -> None:
            self._seed, self._offset, self._lock = _SEED, 0, threading.RLock()
            _known[self._cdata] = self

        @property
        def device(self) -> Any:
            return torch.device("cuda", 0)

        def manual_seed(self, seed: int) -> Any:
            self._seed, self._offset = seed & _WORD, 0
            return self

        def seed(self) -> int:
            self.manual_seed(plain.seed(self))
            return self._seed

        def initial_seed(self) -> int:
            return self._seed

        def get_offset(self) -> int:
            return self._offset

        def set_offset(self, offset: int) -> None:
            if offset % _STEP:
                raise RuntimeError("offset must be a multiple of 4")
            self._offset = offset

        def get_state(self) -> Any:
            return torch.frombuffer(
                bytearray(struct.pack("<QQ", self._seed, self._offset)), dtype=torch.uint8
            )

        def set_state(self, state: Any) -> Any:
            if state.dtype is not torch.uint8 or state.numel() != 16:
                raise RuntimeError("RNG state is wrong size")
            self._seed, self._offset = struct.unpack("<QQ", bytes(state.tolist()))
            return self

        def clone_state(self) -> Any:
            other = Generator("cuda")
            other._seed, other._offset = self._seed, self._offset
            return other

        def graphsafe_get_state(self) -> Any:
            return self.clone_state()

        def graphsafe_set_state(self, other: Any) -> Any:
            self._seed, self._offset = other._seed, other._offset
            return self

        @contextlib.contextmanager
        def drawing(self) -> Iterator[Any]:
            """For one operator: this is a generator of the CPU in its place, and moves on."""
            with self._lock:
                plain.manual_seed(self, _mixed(self._seed, self._offset))
                self._offset += _STEP
                yield self

    Generator.__module__ = "torch"
    return Generator


def _mixed(seed: int, offset: int) -> int:
    """A seed of its own for each offset (the finalizer of SplitMix64); at the start it is the seed itself."""
    if not offset:
        return seed
    value = (seed + offset * 0x9E3779B97F4A7C15) & _WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return value ^ (value >> 31)
