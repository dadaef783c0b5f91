"""Where a kernel that Triton compiled comes from and how it was specialised, in words: the same for every target.

In comes Triton's source of a compilation; out go a `Source` and a line such as
"x: *fp32, n: i32 %16, BLOCK=128, num_warps=4".
"""

from __future__ import annotations

from typing import Any

from tileprobe.targets.base import Source


def source_of(function: Any) -> Source:
    """The function of a kernel; one that was compiled from IR has none."""
    return Source(
        getattr(function, "file_name", ""),
        getattr(function, "starting_line_number", 0),
        "".join(getattr(function, "raw_src", ())),
    )


def signature_of(source: Any, warps: int) -> str:
    """Types of arguments with what the code assumes of them, constants, warps."""
    constants, attributes = getattr(source, "constants", {}), getattr(source, "attrs", {})
    parts = [
        f"{name}={_constant(constants.get((n,)))}" if kind == "constexpr"
        else f"{name}: {kind}{_known(str(kind), attributes.get((n,)))}"
        for n, (name, kind) in enumerate(source.signature.items())
    ]  # fmt: skip
    return ", ".join([*parts, f"num_warps={warps}"])


def _constant(value: Any) -> str:
    """A constant in short: a number, or the name of a function or a type."""
    return getattr(value, "__name__", None) or str(value)


def _known(kind: str, attributes: Any) -> str:
    """What the code assumes of an argument: most pointers are aligned, most numbers are not divisible."""
    by = dict(attributes or ()).get("tt.divisibility")
    if kind.startswith("*"):
        return "" if by else " unaligned"
    return f" %{by}" if by else ""
