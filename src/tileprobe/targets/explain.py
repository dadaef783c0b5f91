"""Names the kernel and the argument when Triton cannot make sense of a launch's arguments.

Triton binds arguments before any backend is asked, and its errors name neither the kernel nor the argument.
While a driver of ours is in use, those errors are looked at once more; launches that work never notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import wraps
from typing import Any

from tileprobe.targets.arguments import ArgumentError

_BINDING_ERRORS = (TypeError, KeyError, IndexError, AttributeError, OverflowError)
_drivers: set[type] = set()  # those in whose launches errors are explained


def install(driver: type) -> None:
    """When a driver of this kind is made."""
    _drivers.add(driver)
    from triton.runtime.jit import JITFunction

    original = JITFunction.run
    if getattr(original, "_tileprobe", False):
        return

    @wraps(original)
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        try:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        except _BINDING_ERRORS as error:
            explanation = (
                None
                if isinstance(error, ArgumentError)
                else _explain(self, None if warmup else grid, args, kwargs)
            )
            if explanation is None:
                raise
            raise explanation from None

    run._tileprobe = True  # type: ignore[attr-defined]
    JITFunction.run = run


def _explain(function: Any, grid: Any, args: Any, kwargs: Any) -> ArgumentError | None:
    from triton.compiler import make_backend
    from triton.runtime import driver

    if type(driver.active) not in _drivers:
        return None
    if grid is not None and not callable(grid) and not (isinstance(grid, Sequence) and grid):
        return ArgumentError(
            f"kernel {function.__name__}: the grid is a tuple of one to three integers, or a function that gives one; "
            f"got {grid!r}"
        )
    target: Any = driver.active.get_current_target()
    names = function.signature.parameters
    try:
        bound = function.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
    except TypeError as error:
        return ArgumentError(f"kernel {function.__name__}: {error}")
    for param in function.params:
        if param.name not in bound.arguments:
            continue
        value = bound.arguments[param.name]
        for name, part in _parts(param.name, value):
            problem = _no_constant(part) if param.is_constexpr else _problem(make_backend(target), part)
            if problem:
                return ArgumentError(f"kernel {function.__name__}, argument {name!r}: {problem}")
    return None


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """An argument, or what a tuple consists of."""
    if not isinstance(value, tuple):
        yield name, value
        return
    for n, part in enumerate(value):
        yield from _parts(f"{name}[{n}]", part)


def _no_constant(value: Any) -> str | None:
    try:
        hash(value)
    except TypeError:
        return f"got a {type(value).__name__}; constants (tl.constexpr) are hashable: numbers, texts, tuples of them"
    return None


def _problem(backend: Any, value: Any) -> str | None:
    from triton._C.libtriton import native_specialize_impl

    try:
        native_specialize_impl(backend, value, False, True, True)
    except _BINDING_ERRORS as error:
        if type(value).__module__ == "numpy" and hasattr(value, "ndim") and value.ndim:
            return "got a NumPy array; wrap it with tileprobe.array(...)"
        if type(value).__module__ == "numpy":
            return f"got a NumPy {type(value).__name__}; use a Python number, .item() gives it"
        if isinstance(value, int):
            return f"{value} has more than 64 bits"
        if hasattr(value, "data_ptr"):
            kind = getattr(value, "dtype", None)
            return f"kernels have no dtype {kind}" if kind is not None else str(error)
        return f"got a {type(value).__name__}; expected a tensor, a number, a tuple of them or None"
    return None
