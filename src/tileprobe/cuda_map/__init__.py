"""Scripts written for CUDA, on a machine without it: `device="cuda"` is the memory of this machine, and `torch.cuda`
answers for the target in use.

`use(target, cuda=True)` and `device_map("cuda=cpu")` turn it on; docs/cuda-scripts.md says what works.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.imports import AfterImport
from tileprobe.targets import catalog

NONE = "none"
_installed: contextlib.ExitStack | None = None


def use(target: str = catalog.DEFAULT, *, cuda: bool = False, **settings: Any) -> Any:
    """Runs Triton kernels on a target from now on, or for a `with` block. The settings are the target's own.

    For the CPU: `threads`, how many threads launches use (default: TILEPROBE_NUM_THREADS, else all CPUs of the
    process); `check_bounds`, accesses outside the tensors a kernel was given raise an error with line and index.
    With `cuda`, torch has a device `cuda` from now on, or for the block: the target. Torch is not imported for that.

    >>> tileprobe.use("cpu", threads=4)
    >>> with tileprobe.use("cpu", check_bounds=True):
    ...     kernel[grid](x, y, n)
    >>> tileprobe.use("cpu", cuda=True)
    >>> kernel[grid](torch.rand(8, device="cuda"), 8)
    """
    chosen = catalog.use(target, **settings)
    if not cuda:
        return chosen
    try:
        return _Both(chosen, _with_torch(target))
    except BaseException:
        chosen.__exit__(None, None, None)
        raise


class _Both:
    """A target in use and the map onto it."""

    def __init__(self, chosen: Any, mapped: contextlib.ExitStack) -> None:
        self._chosen, self._mapped = chosen, mapped

    def __enter__(self) -> _Both:
        self._chosen.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._mapped.close()
        self._chosen.__exit__(*error)


def _with_torch(target: str, *, usual: bool = False) -> contextlib.ExitStack:
    """The map, on once the program has imported torch, now if it has: torch takes longer to import than a small script.
    A torch that has a GPU of its own is refused, or left alone where the map is what is `usual`."""
    stack = contextlib.ExitStack()

    def turn_on() -> None:
        if not (usual and has_gpu(sys.modules["torch"])):
            stack.enter_context(_turned_on(target))

    if "torch" in sys.modules:
        turn_on()
    else:
        later = AfterImport({"torch": turn_on})
        later.watch()
        stack.callback(later.stop)
    return stack


def has_gpu(torch: Any) -> bool:
    """Whether a torch is built for CUDA."""
    return hasattr(torch._C, "_cuda_getDeviceCount")


def _turned_on(target: str) -> contextlib.ExitStack:
    """The map, on already; nothing where it is on: it is one for the whole process."""
    global _installed
    stack = contextlib.ExitStack()
    if _installed is not None:
        return stack
    from tileprobe.cuda_map.install import installed

    found, machine = catalog.find(target)
    stack.enter_context(installed(found.cuda_properties(machine)))
    stack.callback(_turned_off)
    _installed = stack
    atexit.register(stack.close)  # before Python takes its modules apart
    return stack


def _turned_off() -> None:
    global _installed
    _installed = None


def check(text: str | None) -> None:
    """Refuses what is no map; `cuda=cpu` is one, `none` is to have none."""
    if text and text != NONE:
        source, _, target = text.partition("=")
        if target != "cpu" or source not in ("cuda", "hip"):
            raise TileProbeError(f"cannot map {text!r}; the map is cuda=cpu, or none")


def mapped(text: str | None, target: str) -> bool:
    """Whether scripts see a GPU. They do on a simulated one, where nobody says otherwise."""
    return text != NONE if text else getattr(catalog.find(target)[0], "plays_gpu", False)


@contextlib.contextmanager
def device_map(text: str | None, target: str = catalog.DEFAULT, *, static: bool = False) -> Iterator[None]:
    """Maps devices for the block; `text` is `cuda=cpu` or `none`. The GPU that scripts see is `target`.

    Where nothing is said, programs for a GPU that is simulated, or that is compiled for only (`static`), see one once
    they have imported torch; a torch that has a GPU of its own is left alone."""
    check(text)
    with contextlib.ExitStack() as stack:
        if mapped(text, target) or (static and text != NONE):
            stack.enter_context(_with_torch(target, usual=not text))
        yield
