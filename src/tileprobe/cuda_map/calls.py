"""The arguments of one call of an operator: tensors of `cuda:0` go out as tensors of the CPU over the same memory, and
results come back. A result that shares memory with an argument comes back as a view of it."""

from __future__ import annotations

from typing import Any

from tileprobe.cuda_map.memory import Memory


class Call:
    __slots__ = ("memory", "owners", "stray", "tensor")

    def __init__(self, tensor: Any, memory: Memory) -> None:
        self.tensor, self.memory = tensor, memory
        self.owners: dict[int, Any] = {}  # by the address of the storage
        self.stray: Any = None  # a tensor of the CPU that is no number

    def to_host(self, value: Any) -> Any:
        if isinstance(value, self.tensor):
            if not value.is_cuda:
                self.stray = value if value.dim() else self.stray
                return value
            same, address = self.memory.host_at(value)
            self.owners[address] = value
            return same
        if isinstance(value, (list, tuple)):
            return [self.to_host(item) for item in value]
        return value

    def to_cuda(self, value: Any) -> Any:
        if isinstance(value, self.tensor):
            if not value.is_cpu:
                return value
            if self.owners:
                address = value.untyped_storage().data_ptr()
                owner = self.owners.get(address) if address else None
                if owner is not None:
                    return self.memory.view(owner, value, value.storage_offset())
            return self.memory.cuda(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_cuda(item) for item in value)
        return value
