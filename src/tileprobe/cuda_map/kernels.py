"""Torch's operators on `cuda:0`: each runs the CPU's kernel on the same memory.

A torch without CUDA has no kernels for that device. Each operator that has one for the CPU gets one here, and a
fallback for the dispatch key sees all others, of libraries, too: in every thread, below autograd, autocast and
whatever else torch does with tensors. Operators that a script registers for CUDA itself go before. Those that are
different (only another shape, between devices, the size of memory) are in `special.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tileprobe.cuda_map import graphs, special
from tileprobe.cuda_map.calls import Call
from tileprobe.cuda_map.memory import Memory
from tileprobe.cuda_map.plans import Plan
from tileprobe.cuda_map.random_numbers import known

# Torch chooses one of many kernels for these by the device, some of which a GPU alone has. The CPU chooses for itself.
_CHOOSING = ("convolution", "convolution_backward", "convolution_overrideable")


@contextlib.contextmanager
def registered(torch: Any, memory: Memory, generator: Any) -> Iterator[None]:
    """Operators work on `cuda:0` for the block; random ones draw from `generator` unless given another."""
    kernels = Kernels(torch, memory, generator)
    everything = torch.library.Library("_", "IMPL", "CUDA")
    aten = torch.library.Library("aten", "IMPL", "CUDA")
    try:
        everything.fallback(kernels.fallback)
        for name, kernel in (kernels.own() | special.kernels(kernels)).items():
            aten.m.impl(name, "CUDA", kernel, False)
        yield
    finally:
        aten._destroy()
        everything._destroy()


def _check_ordinal(device: Any) -> None:
    if device is not None and device.index not in (None, 0):
        raise RuntimeError(f"CUDA error: invalid device ordinal: {device}, and there is cuda:0 only")


class Kernels:
    def __init__(self, torch: Any, memory: Memory, generator: Any) -> None:
        self.torch, self.memory, self.generator = torch, memory, generator
        self.plans: dict[Any, Plan] = {}
        self.direct = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        self.plainly = torch._C.DisableTorchFunction  # modes of the script do not see what happens here

    def own(self) -> dict[str, Callable[..., Any]]:
        """A kernel for every operator that has one for the CPU, unless torch makes it of others everywhere. (With the
        fallback alone, operators fail where a script's mode is active but not asked, as in parts of Inductor.)"""
        has = self.torch._C._dispatch_has_kernel_for_dispatch_key
        names = [name for name in self.torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
        own = [
            name for name in names if has(name, "CPU") and not has(name, "CompositeImplicitAutograd")
        ]  # fmt: skip
        own += [name for name in names if has(name, "CompositeExplicitAutogradNonFunctional")]
        short = [name.removeprefix("aten::") for name in own]
        return {name: self._own(name) for name in [*short, *_CHOOSING]}

    def _own(self, name: str) -> Callable[..., Any]:
        plan: Plan | None = None
        plainly, run = self.plainly, self.run

        def kernel(*args: Any, **kwargs: Any) -> Any:
            nonlocal plan
            if plan is None:
                plan = Plan(self.torch, self.op(name))
            with plainly():
                return run(plan, args, kwargs)

        return kernel

    def op(self, name: str) -> Any:
        """An operator of `aten`, as in `add.Tensor`."""
        packet, _, overload = name.partition(".")
        return getattr(getattr(self.torch.ops.aten, packet), overload or "default")

    def fallback(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        plan = self.plans.get(op)
        if plan is None:
            plan = self.plans[op] = Plan(self.torch, op)
        with self.plainly():
            return self.run(plan, args, kwargs)

    def run(self, plan: Plan, args: Any, kwargs: dict[str, Any]) -> Any:
        call = Call(self.torch.Tensor, self.memory)
        host_args = [call.to_host(value) for value in args]
        host_kwargs = {name: call.to_host(value) for name, value in kwargs.items()} if kwargs else kwargs
        if plan.one_device and call.stray is not None and call.owners:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"(when calling {plan.op})"
            )
        recording = graphs.now.recording
        if recording is not None:
            if plan.dynamic:
                graphs.forbid_waiting(str(plan.op))
            recording.keep(self._written(plan, args, kwargs))
        if plan.plain:
            made = call.to_cuda(self._call(plan, host_args, host_kwargs))
        else:
            made = self._run_any(plan, call, args, kwargs, host_args, host_kwargs)
        if recording is not None and not plan.reshapes:
            written = self._written(plan, args, kwargs)
            recording.add(
                lambda: None if plan.undefined else self._compute(plan, host_args, host_kwargs, written),
                made, args, kwargs,
            )  # fmt: skip
        return made

    def _run_any(
        self,
        plan: Plan,
        call: Call,
        args: Any,
        kwargs: Any,
        host_args: list[Any],
        host_kwargs: dict[str, Any],
    ) -> Any:
        if plan.has_device:
            _check_ordinal(kwargs.get("device"))
            host_kwargs["device"] = self.memory.cpu
            host_kwargs.pop("pin_memory", None)
        if plan.has_generator:
            self._choose_generator(host_kwargs)
        if plan.numbers_as_tensors:
            self._wrap_numbers(plan, host_args)
        written = self._written(plan, args, kwargs)
        result = self._compute(plan, host_args, host_kwargs, written)
        if plan.reshapes:
            self._reshape(written, self._written(plan, host_args, host_kwargs))
        return self._results(plan, call, written, result)

    def _compute(self, plan: Plan, args: list[Any], kwargs: dict[str, Any], written: list[Any]) -> Any:
        """On the CPU's tensors."""
        with self._drawing(plan, kwargs) if plan.draws else contextlib.nullcontext():
            if plan.is_out:
                return self._into(plan, written, args, kwargs)
            return self._call(plan, args, kwargs)

    def _call(self, plan: Plan, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if plan.widening is not None:
            kind = plan.widening.kind(args, kwargs)
            if kind is not None:
                written = self._written(plan, args, kwargs)
                return plan.widening.run(partial(self._as_it_is, plan), kind, args, kwargs, written)
        return self._as_it_is(plan, args, kwargs)

    def _as_it_is(self, plan: Plan, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """torch hands numbers over as such where an operator takes a tensor, and takes them back for some only."""
        try:
            return plan.op(*args, **kwargs)
        except RuntimeError as error:
            if plan.numbers_as_tensors or "Expected a value of type 'Tensor'" not in str(error):
                raise
        plan.numbers_as_tensors = True
        plan.plain = False
        self._wrap_numbers(plan, args)
        return plan.op(*args, **kwargs)

    def _wrap_numbers(self, plan: Plan, args: list[Any]) -> None:
        """Numbers where the schema says tensor, as tensors of the type that they would have given the result."""
        given = [args[n] for n in plan.tensors if n < len(args)]
        other = next((value for value in given if isinstance(value, self.torch.Tensor)), None)
        for n in plan.tensors:
            if n < len(args) and other is not None and isinstance(args[n], (int, float, complex)):
                kind = self.torch.result_type(other, args[n])
                args[n] = self.torch.scalar_tensor(args[n], dtype=kind, device=self.memory.cpu)

    def _written(self, plan: Plan, args: Any, kwargs: Any) -> list[Any]:
        """The arguments that the operator writes, in the order of the schema."""
        return [args[n] if n < len(args) else kwargs.get(plan.names[n]) for n in plan.written]

    def _results(self, plan: Plan, call: Call, written: list[Any], result: Any) -> Any:
        if not plan.returns_written:
            return None
        if len(plan.returns_written) == 1:
            return written[0] if plan.returns_written[0] else call.to_cuda(result)
        given = iter(written)
        return tuple(
            next(given) if is_written else call.to_cuda(value)
            for is_written, value in zip(plan.returns_written, result)
        )

    def _into(self, plan: Plan, written: list[Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """A call with `out=`. The CPU cannot change the size of memory that it does not own, so results that do not
        fit are computed beside it and moved in."""
        names = [plan.names[n] for n in plan.written]
        lists = any(isinstance(tensor, (list, tuple)) for tensor in written)
        fits = lists or all(tensor is None or tensor.numel() for tensor in written)
        if fits:
            try:
                return self._call(plan, args, kwargs)
            except RuntimeError as error:
                if lists or "resiz" not in str(error):
                    raise
        fresh = {
            name: self.torch.empty(0, dtype=tensor.dtype, device=self.memory.cpu)
            for name, tensor in zip(names, written)
            if tensor is not None
        }
        result = self._call(plan, args, {**kwargs, **fresh})
        for name, tensor in zip(names, written):
            if tensor is not None:
                special.resize_(self, tensor, fresh[name].size())
                self.memory.host(tensor).copy_(fresh[name])
        return result

    def _reshape(self, written: list[Any], seen: list[Any]) -> None:
        for tensor, same in zip(written, seen):
            shape = same.size(), same.stride(), same.storage_offset()
            if shape != (tensor.size(), tensor.stride(), tensor.storage_offset()):
                self.torch.ops.aten.as_strided_.default.redispatch(self.direct, tensor, *shape)

    def _choose_generator(self, kwargs: dict[str, Any]) -> None:
        given = kwargs.get("generator")
        chosen = self.generator if given is None else known(given)
        if chosen is None:
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        kwargs["generator"] = chosen

    @contextlib.contextmanager
    def _drawing(self, plan: Plan, kwargs: dict[str, Any]) -> Iterator[None]:
        """For operators that draw. Without an argument for it they draw from the default generator, which is another
        one on the CPU than on `cuda:0`."""
        if plan.has_generator:
            with kwargs["generator"].drawing():
                yield
            return
        default = self.torch.default_generator
        with self.generator.drawing() as ours:
            before = default.get_state()
            default.manual_seed(self.torch._C.Generator.initial_seed(ours))
            try:
                yield
            finally:
                default.set_state(before)
