"""Torch's operators on `cuda:0`: each runs the CPU's kernel on the same memory.

A torch without CUDA has no kernels for that device, so a fallback for its dispatch key sees every operator, in every
thread, below autograd, autocast and whatever else torch does with tensors. Operators that a script registers for CUDA
itself go before. A few have kernels of their own here: those that only rearrange a tensor's shape, those that go
between devices, and those that change the size of memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tileprobe.cuda_map.cells import cells
from tileprobe.cuda_map.memory import Memory

# The CPU's kernels for these only make another tensor of the same storage, on whatever device.
_SHAPES = (
    "as_strided", "as_strided_", "view", "view.dtype", "view_as_real", "view_as_complex", "_reshape_alias", "unfold",
    "set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor", "set_",
)  # fmt: skip
# Where torch for CUDA demands one device; elsewhere a tensor of the CPU may be among the arguments (indices, sizes).
_ONE_DEVICE = ("mm", "addmm", "bmm", "baddbmm", "cat", "addmv", "dot", "linear", "embedding", "convolution")


@contextlib.contextmanager
def registered(torch: Any, memory: Memory, generator: Any) -> Iterator[None]:
    """Operators work on `cuda:0` for the block; random ones draw from `generator` unless given another."""
    kernels = _Kernels(torch, memory, generator)
    everything = torch.library.Library("_", "IMPL", "CUDA")
    aten = torch.library.Library("aten", "IMPL", "CUDA")
    try:
        everything.fallback(kernels.fallback)
        for name, kernel in (kernels.whole() | kernels.special()).items():
            aten.m.impl(name, "CUDA", kernel, False)
        yield
    finally:
        aten._destroy()
        everything._destroy()


class _Plan:
    """What there is to know of an operator before it is called."""

    def __init__(self, torch: Any, op: Any) -> None:
        schema = op._schema
        writes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        self.written = [n for n, write in enumerate(writes) if write]
        self.names = [a.name for a in schema.arguments]
        self.tensors = [n for n, a in enumerate(schema.arguments) if str(a.type) == "Tensor"]
        self.returns_written = [r.alias_info is not None and r.alias_info.is_write for r in schema.returns]
        self.numbers_as_tensors = False  # found out when one is refused
        self.has_device = "device" in self.names
        self.has_generator = "generator" in self.names
        random = torch.Tag.nondeterministic_seeded in op.tags
        self.draws_unseen = random and not self.has_generator
        self.reshapes = torch.Tag.inplace_view in op.tags
        self.is_out = any(schema.arguments[n].is_out for n in self.written)
        base = schema.name.removeprefix("aten::")
        self.one_device = torch.Tag.pointwise in op.tags or base in _ONE_DEVICE


class _Call:
    """The arguments of one call on the CPU, and which tensors of `cuda:0` they stand for."""

    def __init__(self, torch: Any, memory: Memory) -> None:
        self.tensor, self.memory = torch.Tensor, memory
        self.owners: dict[int, Any] = {}  # by the address of the storage
        self.stray: Any = None  # a tensor of the CPU that is no number

    def to_host(self, value: Any) -> Any:
        if isinstance(value, self.tensor):
            if not value.is_cuda:
                self.stray = value if value.dim() else self.stray
                return value
            same = self.memory.host(value)
            self.owners[value.untyped_storage().data_ptr()] = value
            return same
        if isinstance(value, (list, tuple)):
            return [self.to_host(item) for item in value]
        return value

    def to_cuda(self, value: Any) -> Any:
        if isinstance(value, self.tensor):
            if not value.is_cpu:
                return value
            address = value.untyped_storage().data_ptr()
            owner = self.owners.get(address) if address else None
            if owner is not None:
                return self.memory.view(owner, value, value.storage_offset())
            return self.memory.cuda(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.to_cuda(item) for item in value)
        return value


def _check_ordinal(device: Any) -> None:
    if device is not None and device.index not in (None, 0):
        raise RuntimeError(f"CUDA error: invalid device ordinal: {device}, and there is cuda:0 only")


class _Kernels:
    def __init__(self, torch: Any, memory: Memory, generator: Any) -> None:
        self.torch, self.memory, self.generator = torch, memory, generator
        self.plans: dict[Any, _Plan] = {}
        self.ops: dict[str, Any] = {}
        self.direct = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        self.plainly = torch._C.DisableTorchFunction  # modes of the script do not see what happens here

    # -- every operator -------------------------------------------------------------------------------------------

    def fallback(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        plan = self.plans.get(op)
        if plan is None:
            plan = self.plans[op] = _Plan(self.torch, op)
        with self.plainly():
            return self._run(op, plan, args, kwargs)

    def _run(self, op: Any, plan: _Plan, args: Any, kwargs: dict[str, Any]) -> Any:
        call = _Call(self.torch, self.memory)
        host_args = call.to_host(args)
        host_kwargs = {name: call.to_host(value) for name, value in kwargs.items()}
        if plan.one_device and call.stray is not None and call.owners:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"(when calling {op})"
            )
        if plan.has_device:
            _check_ordinal(kwargs.get("device"))
            host_kwargs["device"] = self.memory.cpu
            host_kwargs.pop("pin_memory", None)
        if plan.has_generator and host_kwargs.get("generator") is None:
            host_kwargs["generator"] = self.generator
        if plan.numbers_as_tensors:
            self._wrap_numbers(plan, host_args)
        written = self._written(plan, args, kwargs)
        with self._drawing() if plan.draws_unseen else contextlib.nullcontext():
            if plan.is_out:
                result = self._into(op, plan, written, host_args, host_kwargs)
            else:
                result = self._call(op, plan, host_args, host_kwargs)
        if plan.reshapes:
            self._reshape(written, self._written(plan, host_args, host_kwargs))
        return self._results(plan, call, written, result)

    def _call(self, op: Any, plan: _Plan, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """torch hands numbers over as such where an operator takes a tensor, and takes them back for some only."""
        try:
            return op(*args, **kwargs)
        except RuntimeError as error:
            if plan.numbers_as_tensors or "Expected a value of type 'Tensor'" not in str(error):
                raise
        plan.numbers_as_tensors = True
        self._wrap_numbers(plan, args)
        return op(*args, **kwargs)

    def _wrap_numbers(self, plan: _Plan, args: list[Any]) -> None:
        """Numbers where the schema says tensor, as tensors of the type that they would have given the result."""
        other = next((args[n] for n in plan.tensors if isinstance(args[n], self.torch.Tensor)), None)
        for n in plan.tensors:
            if n < len(args) and other is not None and isinstance(args[n], (int, float, complex)):
                kind = self.torch.result_type(other, args[n])
                args[n] = self.torch.scalar_tensor(args[n], dtype=kind, device=self.memory.cpu)

    def _written(self, plan: _Plan, args: Any, kwargs: Any) -> list[Any]:
        """The arguments that the operator writes, in the order of the schema."""
        return [args[n] if n < len(args) else kwargs.get(plan.names[n]) for n in plan.written]

    def _results(self, plan: _Plan, call: _Call, written: list[Any], result: Any) -> Any:
        if not plan.returns_written:
            return None
        if len(plan.returns_written) == 1:
            return written[0] if plan.returns_written[0] else call.to_cuda(result)
        given = iter(written)
        return tuple(
            next(given) if is_written else call.to_cuda(value)
            for is_written, value in zip(plan.returns_written, result)
        )

    def _into(self, op: Any, plan: _Plan, written: list[Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """A call with `out=`. The CPU cannot change the size of memory that it does not own, so results that do not
        fit are computed beside it and moved in."""
        names = [plan.names[n] for n in plan.written]
        lists = any(isinstance(tensor, (list, tuple)) for tensor in written)
        fits = lists or all(tensor is None or tensor.numel() for tensor in written)
        if fits:
            try:
                return self._call(op, plan, args, kwargs)
            except RuntimeError as error:
                if lists or "resiz" not in str(error):
                    raise
        fresh = {
            name: self.torch.empty(0, dtype=tensor.dtype, device=self.memory.cpu)
            for name, tensor in zip(names, written)
            if tensor is not None
        }
        result = self._call(op, plan, args, {**kwargs, **fresh})
        for name, tensor in zip(names, written):
            if tensor is not None:
                self.resize_(tensor, fresh[name].size())
                self.memory.host(tensor).copy_(fresh[name])
        return result

    def _reshape(self, written: list[Any], seen: list[Any]) -> None:
        for tensor, same in zip(written, seen):
            shape = same.size(), same.stride(), same.storage_offset()
            if shape != (tensor.size(), tensor.stride(), tensor.storage_offset()):
                self.torch.ops.aten.as_strided_.default.redispatch(self.direct, tensor, *shape)

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        """For operators that draw from the default generator: on the CPU that is another one than on `cuda:0`."""
        default = self.torch.default_generator
        before = default.get_state()
        default.set_state(self.generator.get_state())
        try:
            yield
        finally:
            self.generator.set_state(default.get_state())
            default.set_state(before)

    # -- those that are different ---------------------------------------------------------------------------------

    def special(self) -> dict[str, Callable[..., Any]]:
        found: dict[str, Callable[..., Any]] = {}
        for name in _SHAPES:
            op = self._op(name)
            if self.torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU"):
                found[name] = self._direct(op)
        return found | {
            "copy_": self.copy_,
            "_to_copy": self.to_copy,
            "resize_": self.resize_,
            "record_stream": lambda tensor, stream: None,
            "_fused_sdp_choice": lambda *_, **__: (
                0
            ),  # by plain operators: torch has fused ones for real GPUs only
            **{
                name: lambda *_, **__: False
                for name in self._named("_use_cudnn_ctc_loss", "_use_miopen_ctc_loss")
            },
            **{name: self._outside(function) for name, function in cells(self.torch).items()},
        }

    def _named(self, *packets: str) -> list[str]:
        """All operators of these names, as far as this torch has them."""
        found = (getattr(self.torch.ops.aten, name, None) for name in packets)
        return [str(getattr(p, o)._schema.name).removeprefix("aten::") + ("" if o == "default" else f".{o}")
                for p in found if p is not None for o in p.overloads()]  # fmt: skip

    def _outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """An operator that is a function of ours, on the CPU's tensors."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with self.plainly():
                call = _Call(self.torch, self.memory)
                host = {name: call.to_host(value) for name, value in kwargs.items()}
                return call.to_cuda(function(*call.to_host(args), **host))

        return run

    def whole(self) -> dict[str, Callable[..., Any]]:
        """Operators for which torch has a kernel for any device that makes the result and then calls the one with
        `out=`: the CPU's own does it in one go."""
        found: dict[str, Callable[..., Any]] = {}
        for name in self.torch._C._dispatch_get_all_op_names():
            if name.startswith("aten::") and self.torch._C._dispatch_has_kernel_for_dispatch_key(
                name, "CompositeExplicitAutogradNonFunctional"
            ):
                short = name.removeprefix("aten::")
                found[short] = self._whole(short)
        return found

    def _whole(self, name: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            op = self.ops.get(name)
            if op is None:
                op = self.ops[name] = self._op(name)
            return self.fallback(op, *args, **kwargs)

        return run

    def _op(self, name: str) -> Any:
        packet, _, overload = name.partition(".")
        return getattr(getattr(self.torch.ops.aten, packet), overload or "default")

    def _direct(self, op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            return op.redispatch(self.direct, *args, **kwargs)

        return run

    def copy_(self, to: Any, source: Any, non_blocking: bool = False) -> Any:
        with self.plainly():
            call = _Call(self.torch, self.memory)
            self.torch.ops.aten.copy_.default(call.to_host(to), call.to_host(source))
            return to

    def to_copy(self, tensor: Any, *, device: Any = None, pin_memory: Any = None, **options: Any) -> Any:
        with self.plainly():
            options.pop("non_blocking", None)
            made = self.torch.ops.aten._to_copy.default(self.memory.host(tensor), **options)
            if device is None or device.type == "cuda":
                return self.memory.cuda(made)
            return made if device.type == "cpu" else made.to(device)

    def resize_(self, tensor: Any, size: Any, memory_format: Any = None) -> Any:
        with self.plainly():
            if memory_format is self.torch.preserve_format or memory_format is None:
                memory_format = self.torch.contiguous_format
            shape = self.torch.empty(size, dtype=tensor.dtype, device="meta", memory_format=memory_format)
            storage, offset = tensor.untyped_storage(), tensor.storage_offset()
            needed = (offset + shape.numel()) * tensor.element_size() if shape.numel() else 0
            if needed > storage.nbytes():
                bigger = self.memory.empty_bytes(needed)
                kept = self.memory.host(bigger).untyped_storage()
                if storage.nbytes():
                    old = self.torch._C._construct_storage_from_data_pointer(
                        storage.data_ptr(), self.memory.cpu, storage.nbytes()
                    )
                    whole = self.torch.empty(0, dtype=self.torch.uint8, device=self.memory.cpu)
                    self.memory.host(bigger)[: storage.nbytes()].copy_(whole.set_(old))
                del kept
                storage = bigger.untyped_storage()
            set_ = self.torch.ops.aten.set_.source_Storage_storage_offset
            return set_.redispatch(self.direct, tensor, storage, offset, shape.size(), shape.stride())
