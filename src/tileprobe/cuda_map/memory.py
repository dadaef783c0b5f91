"""One piece of memory as two tensors: torch's CPU kernels see it on `cpu`, the script sees it on `cuda:0`.

In comes a tensor of one side, out goes a tensor of the other at the same address, with no copy. `Memory` counts what
the tensors on `cuda:0` hold.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from tileprobe.errors import UnsupportedError

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_DEVICE_TYPE = 8  # in a DLManagedTensor, after the address of the data
_DL_CUDA = 2


class Memory:
    """Tensors of `cuda:0` over the memory of this machine."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.cpu = torch.device("cpu")
        self.usage = Usage(torch)
        self._empty = torch.empty
        self._construct = torch._C._construct_storage_from_data_pointer
        self._out, self._in = torch._C._to_dlpack, torch._C._from_dlpack
        self._direct = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        # DLPack has no names for these: they travel as bytes or as integers of their width.
        plain = (1, torch.uint8), (2, torch.int16), (4, torch.int32), (8, torch.int64)
        self._width = dict(plain)
        self._named = {
            torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
            torch.float32, torch.float64, torch.bool, torch.complex64, torch.complex128,
        }  # fmt: skip

    def host(self, tensor: Any) -> Any:
        """The same memory as a CPU tensor. It does not own the memory: for use while `tensor` lives."""
        return self.host_at(tensor)[0]

    def host_at(self, tensor: Any) -> tuple[Any, int]:
        """The same with the address of its storage."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        same = self._construct(address, self.cpu, storage.nbytes())
        made = self._empty(0, dtype=tensor.dtype, device=self.cpu)
        made.set_(same, tensor.storage_offset(), tensor.size(), tensor.stride())
        # Flags of the tensor, not of its memory: read the values conjugated, or negated.
        if tensor.is_conj():
            made = self.torch._conj(made)
        return (self.torch._neg_view(made) if tensor.is_neg() else made), address

    def bytes_of(self, storage: Any) -> Any:
        """All of a storage as bytes on the CPU, not owned."""
        same = self._construct(storage.data_ptr(), self.cpu, storage.nbytes())
        return self._empty(0, dtype=self.torch.uint8, device=self.cpu).set_(same)

    def cuda(self, tensor: Any) -> Any:
        """The same memory as a tensor of `cuda:0`, which from now on owns it together with `tensor`."""
        if tensor.layout is not self.torch.strided:
            raise UnsupportedError(
                f"a tensor of layout {tensor.layout} on the mapped device; only dense ones can be there"
            )
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if tensor.dtype not in self._named:
            return self._by_width(tensor)
        capsule = self._out(tensor)
        ctypes.memset(
            _pointer(capsule, b"dltensor") + _DEVICE_TYPE, _DL_CUDA, 1
        )  # a small number, by its low byte
        made = self._in(capsule)
        self.usage.add(made.untyped_storage())
        # DLPack leaves the strides of dimensions of one element out
        return made if made.stride() == tensor.stride() else self.view(made, tensor)

    def _by_width(self, tensor: Any) -> Any:
        plain = self._width.get(tensor.element_size())
        if plain is None:
            raise UnsupportedError(f"tensors of {tensor.dtype} on the mapped device")
        made = self.cuda(tensor.view(plain))
        return self.torch.ops.aten.view.dtype.redispatch(self._direct, made, tensor.dtype)

    def view(self, base: Any, like: Any, offset: int | None = None) -> Any:
        """A view of `base` (a tensor of `cuda:0`) with the shape of `like`, a view of the same memory on the CPU."""
        aten = self.torch.ops.aten
        if like.dtype is not base.dtype:
            flat = aten.as_strided.default.redispatch(
                self._direct, base, (base.untyped_storage().nbytes() // base.element_size(),), (1,), 0
            )
            base = aten.view.dtype.redispatch(self._direct, flat, like.dtype)
        place = base.storage_offset() if offset is None else offset
        return aten.as_strided.default.redispatch(self._direct, base, like.size(), like.stride(), place)

    def empty_bytes(self, size: int) -> Any:
        """New memory of so many bytes, as a tensor of `cuda:0`."""
        return self.cuda(self.torch.empty(size, dtype=self.torch.uint8, device=self.cpu))


class Usage:
    """How many bytes tensors of `cuda:0` hold. The peak is seen at every count, which is when somebody asks and
    after every so many allocations: between two of these it may have been higher."""

    def __init__(self, torch: Any) -> None:
        self._storage = torch.UntypedStorage
        self._lock = threading.RLock()
        self._held: list[tuple[Any, int]] = []
        self._next_count = 256
        self.peak = self.allocations = 0

    def add(self, storage: Any) -> None:
        with self._lock:
            self._held.append((storage._weak_ref(), storage.nbytes()))
            self.allocations += 1
            if len(self._held) >= self._next_count:
                self.count()

    def count(self) -> int:
        """Bytes held now."""
        with self._lock:
            held = []
            for weak, size in self._held:
                if self._storage._expired(weak):
                    self._storage._free_weak_ref(weak)
                else:
                    held.append((weak, size))
            self._held = held
            self._next_count = max(256, 2 * len(held))
            now = sum(size for _, size in held)
            self.peak = max(self.peak, now)
            return now

    def reset_peak(self) -> None:
        self.peak = 0
        self.count()
