"""Puts right which lines of the source inline assembly stands for, before ptxas reads it.

Triton makes loads, stores and more of inline assembly. LLVM gives its second line the source's next line, its third
the one behind that, and says so from the first instruction on; faults and races would be told with lines that have
nothing to do with them. In comes PTX, out goes PTX in which a piece of assembly has one place, its first line's;
machine code is the same but for its table of lines. Names of files that are not ASCII, which ptxas refuses, are spelled
in it; who reads machine code reads them back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_OCTAL = re.compile(
    r"(?:\\[23][0-7]{2})+"
)  # LLVM writes bytes so; ptxas takes a backslash for the end of a folder
_SPELLED = re.compile(r"\{U\+([0-9A-F]{4,6})\}")
_PLACE = re.compile(r"(\.loc\s+\d+\s+)(\d+)")
_KEY = "tileprobe-lines-3"  # part of the name under which Triton keeps what was compiled


def mended(ptx: str) -> str:
    """PTX whose inline assembly names one place each, in ASCII."""
    out: list[str] = []
    within, placed, before = False, False, 0
    for line in ptx.split("\n"):
        text = line.strip()
        if text == "// begin inline asm":
            within, placed, before = True, False, 0
        elif text == "// end inline asm":
            within = False
        elif within and text.startswith(".loc"):
            if placed:
                line = "//"  # lines keep their numbers: who reads the cubin knows the PTX by them
            else:
                line = _PLACE.sub(lambda loc: f"{loc[1]}{max(int(loc[2]) - before, 1)}", line, count=1)  # noqa: B023
                placed = True
        elif within:
            before += 1
        elif text.startswith(".file"):
            line = _OCTAL.sub(_bytes, line)
        out.append(line)
    return spelled("\n".join(out))


def _bytes(octal: re.Match[str]) -> str:
    return bytes(int(one, 8) for one in octal[0].split("\\")[1:]).decode(errors="replace")


def spelled(text: str) -> str:
    """What is not ASCII as `{U+00E9}`."""
    return text if text.isascii() else re.sub(r"[^\x00-\x7F]", lambda c: f"{{U+{ord(c[0]):04X}}}", text)


def read(text: str) -> str:
    """What was spelled, as it was."""
    return _SPELLED.sub(lambda code: chr(min(int(code[1], 16), 0x10FFFF)), text)


def hook(*stages: Any) -> tuple[str, str] | None:
    """What Triton asks while it compiles (`knobs.runtime.add_stages_inspection_hook`): without arguments for a key of
    what is done, with them to do it."""
    if not stages:
        return _KEY, _KEY
    steps: dict[str, Callable[[Any, Any], Any]] = stages[1]
    plain = steps.get("cubin")
    if plain is not None:
        steps["cubin"] = lambda source, metadata: plain(mended(source), metadata)
    return None


def begin() -> Callable[[], None]:
    """Mends lines from now on, unless somebody has a hook of his own there. Out goes what ends it."""
    from triton import knobs

    runtime: Any = knobs.runtime
    if runtime.add_stages_inspection_hook is not None:
        return lambda: None
    runtime.add_stages_inspection_hook = hook

    def end() -> None:
        if runtime.add_stages_inspection_hook is hook:
            runtime.add_stages_inspection_hook = None

    return end
