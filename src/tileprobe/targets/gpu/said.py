"""What a kernel says about itself: its marks and values, which the plain kernel does not have.

In comes a kernel that Triton compiled; out goes its final TTGIR, with the marks and values in it where there are any.
For that it is compiled once more from its source; Triton keeps the result.
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from tileprobe.ir.mode import SAYS, with_pipeline

_LIMIT = re.compile(r"ttg\.maxnreg = \d+ : i32")
_LANGUAGE, _WORDS = "tileprobe.language", {"mark", "value"}
_MODULE = re.compile(r"module attributes \{")


def as_it_speaks(plain: Any) -> str:
    """The final TTGIR of a kernel, with what it says."""
    from tileprobe.targets.gpu.compile import options_of

    function = getattr(plain.src, "fn", None)
    if function is None or not _speaks(function, set()):
        return plain.asm["ttgir"]
    import triton

    options = options_of(plain)
    options["instrumentation_mode"] = with_pipeline(options.get("instrumentation_mode") or "", SAYS)
    text: str = triton.compile(plain.src, target=plain.metadata.target, options=options).asm["ttgir"]
    limit = _LIMIT.search(plain.asm["ttgir"])
    if (
        limit is not None and _LIMIT.search(text) is None
    ):  # Triton drops it from kernels that are instrumented
        text = _MODULE.sub(lambda found: f"{found[0]}{limit[0]}, ", text, count=1)
    return text


def _speaks(function: Any, seen: set[int]) -> bool:
    """Whether a kernel, or a function that it calls, uses marks or values."""
    python = getattr(function, "fn", None)
    if python is None or id(function) in seen:
        return False
    seen.add(id(function))
    names = set(python.__code__.co_names)
    for name in names:
        held = python.__globals__.get(name)
        if getattr(held, "__module__", "") == _LANGUAGE and getattr(held, "__name__", "") in _WORDS:
            return True
        if isinstance(held, ModuleType) and held.__name__.split(".")[0] == "tileprobe":
            return bool(names & _WORDS)
        if hasattr(held, "fn") and _speaks(held, seen):
            return True
    return False
