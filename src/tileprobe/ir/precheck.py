"""Text that would keep xDSL's parser busy for ever is refused before it is parsed.

In comes IR as a user wrote it; out goes nothing, or an error that names the line. Two things are looked for: a string
that is not closed, for which the parser's regular expression tries every way to cut it in pieces (twice as many with
each character), and integers so wide that a single number of that type fills the memory.
"""

from __future__ import annotations

import re

from tileprobe.errors import TileProbeError

WIDEST = 4096  # bits of an integer; Triton has none above 128
# Comments, strings, integer types. Nothing in it can match in two ways, so it takes one pass.
_PIECES = re.compile(
    r"""//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*(?P<end>"?)|(?<![\w$.%@#^!])[su]?i(?P<bits>[0-9]+)(?![\w$])"""
)


def check_text(text: str, name: str) -> None:
    """Refuses what cannot be parsed in reasonable time."""
    for piece in _PIECES.finditer(text):
        if piece["end"] == "":
            raise TileProbeError(
                f"{_line(text, piece, name)}: a string is not closed, or has an escape that MLIR does not know"
            )
        bits = piece["bits"]
        if bits is not None and (len(bits) > 8 or int(bits) > WIDEST):
            raise TileProbeError(
                f"{_line(text, piece, name)}: an integer of {bits[:20]} bits; at most {WIDEST} can be"
            )


def _line(text: str, piece: re.Match[str], name: str) -> str:
    return f"{name}, line {text.count(chr(10), 0, piece.start()) + 1}"
