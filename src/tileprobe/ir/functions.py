"""The functions that a kernel calls: where they were written, and their text, so that a trace can show their lines.

In come lines that time is spent in; out go the functions around them, read from the files they were compiled from.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tileprobe.ir.parts import Frame
from tileprobe.ir.regions import Region


@dataclass(frozen=True)
class Function:
    """A function in a source file; `first_line` is that of its first decorator."""

    name: str
    file: str
    first_line: int
    text: str = ""

    def __contains__(self, place: Frame) -> bool:
        file, line = place
        return file == self.file and 0 <= line - self.first_line < max(1, len(self.text.splitlines()))


def functions_called(regions: Iterable[Region], kernel: Function) -> tuple[Function, ...]:
    """The functions besides the kernel itself that the parts of its regions lie in, by file and line."""
    frames = {frame for region in regions for part in region.parts for frame in part.frames}
    found = {function_at(*frame) for frame in frames if frame not in kernel}
    return tuple(sorted((f for f in found if f is not None), key=lambda f: (f.file, f.first_line)))


def function_at(file: str, line: int) -> Function | None:
    """The innermost function around a line. None where the file cannot be read or parsed, or has none there."""
    text = "".join(linecache.getlines(file))
    around = [f for f in _functions(file, text) if (file, line) in f]
    return max(around, key=lambda f: f.first_line, default=None)


@lru_cache(maxsize=64)
def _functions(file: str, text: str) -> tuple[Function, ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    lines = text.splitlines()
    found: list[Function] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            body = "\n".join(lines[first - 1 : node.end_lineno])
            found.append(Function(node.name, file, first, body))
    return tuple(found)
