"""Source locations: reading and writing MLIR's, and asking an op which line of the user's it came from.

Comes in: location text from Triton's printer, or an op of an xDSL module. Goes out: xDSL location
attributes, their text, and `Loc`, the flattened form the rest of the project uses.
"""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, BlockArgument, Operation

from tileprobe.errors import TileProbeError

UNKNOWN = UnknownLoc()
_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(#[\w$]+)|(\d+)|([A-Za-z]+)|([()\[\]:,<>]))')
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))")


@dataclass(frozen=True)
class Loc:
    """A position: `name` is the variable assigned there, `callers` the frames around it, innermost first."""

    file: str
    line: int
    column: int
    name: str | None = None
    callers: tuple[Loc, ...] = ()


def source_location(op: Operation | BlockArgument) -> Loc | None:
    """The innermost line of the user's that `op` came from, or None when it has no known position.

    Frames inside Triton's own library (`tl.sum` is Python code there) are passed over for the caller's.
    """
    frames = call_chain(op)
    if not frames:
        return None
    index = next((i for i, frame in enumerate(frames) if not _is_library(frame.file)), 0)
    found = frames[index]
    return Loc(found.file, found.line, found.column, found.name, frames[index + 1 :])


def user_frames(loc: Attribute) -> tuple[tuple[str, int], ...]:
    """File and line of a location, then of the lines that called it; frames of Triton's library are left out."""
    return tuple((frame.file, frame.line) for frame in _frames(loc, None) if not _is_library(frame.file))


def call_chain(op: Operation | BlockArgument) -> tuple[Loc, ...]:
    """Every frame of `op`'s location, innermost first, library frames included."""
    return _frames(op.location, None)


@lru_cache(maxsize=8192)
def _frames(loc: Attribute, name: str | None) -> tuple[Loc, ...]:
    match loc:
        case FileLineColLoc():
            return (Loc(loc.filename.data, loc.line.data, loc.column.data, name),)
        case NameLoc():
            return _frames(loc.location, loc.desc.data)
        case CallSiteLoc():
            return _frames(loc.callee, name) + _frames(loc.caller, None)
        case FusedLoc(locations=ArrayAttr() as parts):
            return next((frames for part in parts if (frames := _frames(part, name))), ())
        case _:
            return ()


@lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    root = _triton_root()
    return root is not None and file.startswith(root)


@lru_cache(maxsize=1)
def _triton_root() -> str | None:
    spec = importlib.util.find_spec("triton")
    return os.path.dirname(spec.origin) + os.sep if spec is not None and spec.origin else None


def unescape(text: str) -> str:
    """The string an MLIR string literal's body stands for (its escapes are bytes of UTF-8)."""
    if "\\" not in text:
        return text
    special = {b"n": b"\n", b"t": b"\t"}
    raw = _ESCAPE.sub(
        lambda m: bytes.fromhex(m[1].decode()) if m[1] else special.get(m[2], m[2]), text.encode()
    )
    return raw.decode("utf-8", "surrogateescape")


def escape(text: str) -> str:
    """The body of an MLIR string literal for `text`."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(_escape_byte(byte) for byte in text.encode("utf-8", "surrogateescape"))


def _escape_byte(byte: int) -> str:
    if byte == 0x5C:
        return r"\\"
    return chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x22 else f"\\{byte:02X}"


class LocationReader:
    """Reads location text; aliases are looked up in `aliases` (name with '#' -> body of its `loc(...)`)."""

    def __init__(self, aliases: dict[str, str]):
        self._bodies = aliases
        self._known: dict[str, LocationAttr] = {}

    def read(self, body: str) -> LocationAttr:
        """The location whose text, without the surrounding `loc(` and `)`, is `body`."""
        known = self._known.get(body)
        if known is not None:
            return known
        if body in self._bodies:
            loc = self.read(self._bodies[body])
        else:
            tokens = _TOKEN.finditer(body)
            loc = self._parse([(m.lastindex or 0, m[m.lastindex or 0]) for m in tokens][::-1], body)
        self._known[body] = loc
        return loc

    def _parse(self, tokens: list[tuple[int, str]], body: str) -> LocationAttr:
        """Parse one location off the end of `tokens`, which are (kind, text) in reverse order."""
        try:
            loc = self._location(tokens)
        except (IndexError, ValueError):
            loc = None
        if loc is None or tokens:
            raise TileProbeError(f"the bridge cannot read the source location loc({body})")
        return loc

    def _location(self, tokens: list[tuple[int, str]]) -> LocationAttr | None:
        kind, text = tokens.pop()
        if kind == 1:
            return self._named_or_file(unescape(text), tokens)
        if kind == 2:
            return self.read(text) if text in self._bodies else None
        if text == "unknown":
            return UNKNOWN
        if text == "callsite":
            return self._callsite(tokens)
        if text == "fused" and tokens[-1][1] == "[":
            return self._fused(tokens)
        return None

    def _named_or_file(self, name: str, tokens: list[tuple[int, str]]) -> LocationAttr | None:
        follows = tokens[-1][1] if tokens else ""
        if follows == ":":
            _, (_, line), _, (_, column) = (tokens.pop() for _ in range(4))
            return FileLineColLoc(StringAttr(name), IntAttr(int(line)), IntAttr(int(column)))
        if follows != "(":
            return NameLoc(StringAttr(name), NoneAttr())
        tokens.pop()
        inner = self._location(tokens)
        closing = tokens.pop()[1]
        return NameLoc(StringAttr(name), inner) if inner is not None and closing == ")" else None

    def _callsite(self, tokens: list[tuple[int, str]]) -> LocationAttr | None:
        opening = tokens.pop()[1]
        callee = self._location(tokens)
        word = tokens.pop()[1]
        caller = self._location(tokens)
        closing = tokens.pop()[1]
        if callee is None or caller is None or (opening, word, closing) != ("(", "at", ")"):
            return None
        return CallSiteLoc(callee, caller)

    def _fused(self, tokens: list[tuple[int, str]]) -> LocationAttr | None:
        parts: list[Attribute] = []
        while tokens.pop()[1] in "[,":
            part = self._location(tokens)
            if part is None:
                return None
            parts.append(part)
        return FusedLoc(tuple(parts), NoneAttr())


def location_text(loc: Attribute) -> str:
    """The text of a location without the surrounding `loc(` and `)`."""
    match loc:
        case FileLineColLoc():
            return f'"{escape(loc.filename.data)}":{loc.line.data}:{loc.column.data}'
        case NameLoc():
            inner = "" if isinstance(loc.location, NoneAttr) else f"({location_text(loc.location)})"
            return f'"{escape(loc.desc.data)}"{inner}'
        case CallSiteLoc():
            return f"callsite({location_text(loc.callee)} at {location_text(loc.caller)})"
        case FusedLoc(locations=ArrayAttr() as parts):
            return f"fused[{', '.join(location_text(part) for part in parts)}]"
        case _:
            return "unknown"
