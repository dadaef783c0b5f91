"""torch.compile on the mapped device: Inductor writes Triton kernels for it, and they go to the target in use.

Inductor asks Triton for the driver of a GPU and for code of its kind, and compiles in processes of its own, where there
is no map. These are answered here, when (and only if) a program imports them.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def redirected() -> Iterator[None]:
    """For the block, Inductor's kernels for `cuda` are compiled and launched by Triton's active driver."""
    with contextlib.ExitStack() as undo:

        def set_(owner: Any, name: str, value: Any) -> None:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        def helpers(module: ModuleType) -> None:
            set_(module, "set_driver_to_gpu", lambda: None)

        def heuristics(module: ModuleType) -> None:
            plain = module.GPUTarget  # type: ignore[attr-defined]

            def target(backend: str, *rest: Any) -> Any:
                from triton.runtime import driver

                return driver.active.get_current_target() if backend == "cuda" else plain(backend, *rest)

            set_(module, "GPUTarget", target)

        def config(module: ModuleType) -> None:
            set_(module, "compile_threads", 1)
            set_(module, "use_static_cuda_launcher", False)  # goes past Triton, to CUDA itself
            set_(module.triton, "cudagraph_trees", False)  # they manage the memory of CUDA's allocator

        def interface(module: ModuleType) -> None:
            import torch

            raw = torch._C._cuda_getCurrentRawStream
            set_(module, "get_cuda_stream", raw)
            set_(module.CudaInterface, "get_raw_stream", staticmethod(raw))

        finder = _Finder(
            {
                "torch._inductor.runtime.triton_helpers": helpers,
                "torch._inductor.runtime.triton_heuristics": heuristics,
                "torch._inductor.config": config,
                "torch._dynamo.device_interface": interface,
            }
        )
        finder.apply_to_imported()
        sys.meta_path.insert(0, finder)
        undo.callback(sys.meta_path.remove, finder)
        yield


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it calls a function with a module once that has been imported by the others."""

    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = wanted

    def apply_to_imported(self) -> None:
        for name in [name for name in self._wanted if name in sys.modules]:
            self._wanted.pop(name)(sys.modules[name])

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        after = self._wanted.pop(fullname, None)
        if after is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        plain: Any = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            plain(module)
            after(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
