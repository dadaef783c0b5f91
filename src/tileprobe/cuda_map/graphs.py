"""CUDA graphs: what a script does on `cuda:0` between `capture_begin` and `capture_end` is written down, operator by
operator and launch by launch, and done again by `replay`, on the same memory.

To know what the results look like, everything is also done while it is captured, which a GPU does not do. So memory
that was there before is put back when the capture ends, and so are the random numbers; results of the capture hold
their values already, where those of a GPU hold none before the first replay.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tileprobe.cuda_map.memory import Memory
from tileprobe.errors import UnsupportedError

_pools = itertools.count(1)
_inside = threading.local()  # a launch may launch another in its place


class _Now:
    recording: Recording | None = None  # one for the process, as on a GPU


now = _Now()


class Recording:
    def __init__(self, torch: Any, memory: Memory, generator: Any) -> None:
        self._torch, self._memory, self._generator = torch, memory, generator
        self._state = generator.get_state()
        self._steps: list[Callable[[], None]] = []
        self._before: dict[int, tuple[Any, Any]] = {}  # by address: memory as the CPU sees it, what it held
        self._made: set[int] = set()
        self._alive: list[Any] = []

    def keep(self, tensors: Any) -> None:
        """Before something is written: what tensors hold that were there before the capture."""
        for tensor in self._all(tensors):
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address and address not in self._made and address not in self._before:
                whole = self._memory.bytes_of(storage)
                self._before[address] = whole, whole.clone()
                self._alive.append(tensor)

    def add(self, compute: Callable[[], Any], made: Any, *alive: Any) -> None:
        """`compute` has given `made`; done again, its results go to the same place."""
        self._alive += [made, alive]
        places = list(self._all(made))
        self._made |= self._addresses(places) - self._addresses(self._all(alive))

        def step() -> None:
            for place, result in zip(places, self._all(compute())):
                if result.data_ptr() != place.data_ptr():
                    self._memory.host(place).copy_(result)

        self._steps.append(step)

    def add_launch(self, run: Callable[[], Any], args: Any) -> None:
        self._alive.append(args)
        self._steps.append(lambda: (run(), None)[1])

    def _all(self, value: Any) -> Iterator[Any]:
        """The tensors in a value, descriptors of tensors among them."""
        if isinstance(value, self._torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self._all(item)
        elif hasattr(value, "base") and hasattr(value, "block_shape"):
            yield from self._all(value.base)

    def _addresses(self, tensors: Iterable[Any]) -> set[int]:
        return {tensor.untyped_storage().data_ptr() for tensor in tensors}

    def end(self) -> None:
        for whole, held in self._before.values():
            whole.copy_(held)
        self._before.clear()
        self._generator.set_state(self._state)

    def replay(self) -> None:
        with self._torch._C.DisableTorchFunction(), self._torch.no_grad():
            for step in self._steps:
                step()


def forbid_waiting(what: str) -> None:
    """For what makes the host wait for a GPU, or for a shape that it computes."""
    if now.recording is not None:
        raise RuntimeError(
            f"CUDA error: operation not permitted when stream is capturing: {what} needs a result that a graph has "
            "only when it is replayed"
        )


@contextlib.contextmanager
def _launches_recorded(recording: Recording) -> Iterator[None]:
    """For the block. Launches are met where Triton asks a kernel for its launcher; launchers that were asked for before
    (Inductor keeps them) where they are called."""
    from triton.compiler import CompiledKernel
    from triton.runtime import driver

    def recorded(launch: Callable[..., Any], *given: Any) -> Any:
        if getattr(_inside, "launch", False):
            return launch(*given)
        recording.keep(given[9:])  # behind grid, stream, function, metadata and hooks
        _inside.launch = True
        try:
            made = launch(*given)
        finally:
            _inside.launch = False
        recording.add_launch(lambda: launch(*given), given)
        return made

    kernels: Any = CompiledKernel
    active: Any = driver.active
    asked, kind = kernels.run, active.launcher_cls
    called = kind.__call__ if isinstance(kind, type) else None

    def run(kernel: Any) -> Callable[..., Any]:
        launcher = asked.fget(kernel)  # at once: it also loads the kernel
        return lambda *given: recorded(launcher, *given)

    kernels.run = property(run)
    if called is not None:
        kind.__call__ = lambda launcher, *given: recorded(lambda *g: called(launcher, *g), *given)
    try:
        yield
    finally:
        kernels.run = asked
        if called is not None:
            kind.__call__ = called


def make(torch: Any, memory: Memory, generator: Any) -> type:
    """The class `CUDAGraph`."""

    class CUDAGraph:
        def __init__(self, keep_graph: bool = False) -> None:
            self._recording: Recording | None = None
            self._capture = contextlib.ExitStack()
            self._pool = (0, next(_pools))

        def capture_begin(self, pool: Any = None, **_: Any) -> None:
            if now.recording is not None or self._recording is not None:
                raise RuntimeError(
                    "this graph, or another one, is being captured or has been: reset() it first"
                )
            self._pool = pool or self._pool
            recording = Recording(torch, memory, generator)
            self._capture.enter_context(_launches_recorded(recording))
            self._capture.callback(setattr, now, "recording", None)
            self._recording = now.recording = recording

        def capture_end(self) -> None:
            if self._recording is None or now.recording is not self._recording:
                raise RuntimeError("capture_end() without capture_begin()")
            self._capture.close()
            self._recording.end()

        def replay(self) -> None:
            if self._recording is None or now.recording is self._recording:
                raise RuntimeError(
                    "Called CUDAGraph::replay without a preceding successful capture."
                )  # torch's words
            self._recording.replay()

        def reset(self) -> None:
            self._recording = None

        def pool(self) -> tuple[int, int]:
            return self._pool

        def instantiate(self) -> None: ...
        def register_generator_state(self, generator: Any) -> None: ...
        def enable_debug_mode(self) -> None: ...

        def raw_cuda_graph(self) -> int:
            raise UnsupportedError("a graph on a mapped device is no cudaGraph_t: there is no CUDA here")

        raw_cuda_graph_exec = raw_cuda_graph

        def debug_dump(self, path: str) -> None:
            raise UnsupportedError("graphs on a mapped device cannot be dumped")

    CUDAGraph.__module__, CUDAGraph.__qualname__ = "torch.cuda", "CUDAGraph"
    return CUDAGraph


def pool_handle() -> tuple[int, int]:
    return 0, next(_pools)
