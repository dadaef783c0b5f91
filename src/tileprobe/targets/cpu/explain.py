"""Names the kernel and the argument when Triton cannot make sense of a launch's arguments.

Triton binds arguments before any backend is asked, and its errors name neither the kernel nor the argument.
While the CPU driver is in use, those errors are looked at once more; launches that work never notice.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from tileprobe.targets.cpu.launch_pack import ArgumentError

_BINDING_ERRORS = (TypeError, KeyError, AttributeError)


def install() -> None:
    """Once a process, when the CPU driver is created."""
    from triton.runtime.jit import JITFunction

    original = JITFunction.run
    if getattr(original, "_tileprobe", False):
        return

    @wraps(original)
    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        try:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        except _BINDING_ERRORS as error:
            explanation = None if isinstance(error, ArgumentError) else _explain(self, args, kwargs)
            if explanation is None:
                raise
            raise explanation from None

    run._tileprobe = True  # type: ignore[attr-defined]
    JITFunction.run = run


def _explain(function: Any, args: Any, kwargs: Any) -> ArgumentError | None:
    from triton.compiler import make_backend
    from triton.runtime import driver

    target: Any = driver.active.get_current_target()
    if target.backend != "cpu":
        return None
    names = function.signature.parameters
    try:
        bound = function.signature.bind(*args, **{k: v for k, v in kwargs.items() if k in names})
    except TypeError as error:
        return ArgumentError(f"kernel {function.__name__}: {error}")
    for param in function.params:
        if param.name not in bound.arguments or param.is_constexpr:
            continue
        value = bound.arguments[param.name]
        problem = _problem(make_backend(target), value)
        if problem:
            return ArgumentError(f"kernel {function.__name__}, argument {param.name!r}: {problem}")
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
        if hasattr(value, "data_ptr"):
            kind = getattr(value, "dtype", None)
            return f"kernels have no dtype {kind}" if kind is not None else str(error)
        return f"got a {type(value).__name__}; expected a tensor, a number, a tuple of them or None"
    return None
