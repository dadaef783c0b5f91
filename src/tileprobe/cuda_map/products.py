"""Products that torch has for CUDA alone: of f16 or bf16 with the result in f32. By the names of `aten`. Tensors come
in on the CPU and go out there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def products(torch: Any) -> dict[str, Callable[..., Any]]:
    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) else value

    def plain(name: str) -> Callable[..., Any]:
        function = getattr(torch, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            *tensors, kind = args
            return function(*map(wide, tensors), **kwargs).to(kind)

        return run

    names = ("mm", "bmm", "addmm", "baddbmm")
    return {f"{name}.{form}": plain(name) for name in names for form in ("dtype", "dtype_out")}
