"""Damage: of bytes, of text, of JSON. In comes something whole and a source of chance; out goes something like it."""

from __future__ import annotations

import random
import re
from typing import Any

# What programs trip over: limits of integers, floats without a value, escapes, halves of characters, other scripts.
TEXTS = (
    "",
    " ",
    "\0",
    "\x1b[31mred\x1b[0m",
    "\u202egnp",
    "µ",
    "日本",
    "\udc80",
    "%s",
    "{}",
    "../..",
    "a" * 3000,
    "-",
    "--",
    "\n",
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    255,
    2**16,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**32,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))
VALUES: tuple[Any, ...] = (None, True, False, [], {}, [None], {"a": 1}, *NUMBERS, *FLOATS, *TEXTS)


def bytes_like(data: bytes, draw: random.Random) -> bytes:
    """A few bytes changed, taken out, put in or doubled, or the rest cut off."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        at = draw.randrange(len(out) + 1)
        length = draw.choice((1, 1, 2, 4, 8, 64, 512))
        what = draw.randrange(6)
        if what == 0 and out:
            out[at % len(out)] = draw.randrange(256)
        elif what == 1 and out:
            out[at % len(out)] ^= 1 << draw.randrange(8)
        elif what == 2:
            del out[at : at + length]
        elif what == 3:
            out[at:at] = draw.randbytes(length)
        elif what == 4:
            out[at:at] = out[at : at + length]
        elif draw.random() < 0.3:
            del out[at:]
    return bytes(out)


_PIECES = re.compile(r"\s+|[A-Za-z_][\w.$-]*|[%@#!^]\w+|-?\d[\w.]*|\"[^\"\n]*\"|.", re.DOTALL)


def text_like(text: str, draw: random.Random, others: list[str]) -> str:
    """Words, numbers, names and lines changed, moved, taken out or doubled; some come from other texts."""
    pieces = _PIECES.findall(text)
    for _ in range(draw.choice((1, 1, 1, 1, 2, 3, 12))):
        if not pieces:
            break
        at = draw.randrange(len(pieces))
        what = draw.randrange(12)
        if what >= 8:
            _renumber(pieces, draw)
        elif what == 0:
            pieces[at] = draw.choice(pieces)
        elif what == 1:
            del pieces[at : at + draw.choice((1, 1, 2, 5, 30))]
        elif what == 2:
            pieces[at:at] = pieces[at : at + draw.choice((1, 3, 20))]
        elif what == 3:
            pieces[at] = str(draw.choice((*NUMBERS, *FLOATS)))
        elif what == 4:
            pieces[at] = draw.choice(TEXTS)
        elif what == 5:
            other = draw.randrange(len(pieces))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif what == 6:
            pieces[at] = draw.choice(_PIECES.findall(draw.choice(others)))
        else:
            lines = "".join(pieces).split("\n")
            here, there = draw.randrange(len(lines)), draw.randrange(len(lines))
            lines.insert(here, lines.pop(there))
            pieces = _PIECES.findall("\n".join(lines))
    return "".join(pieces)


def _renumber(pieces: list[str], draw: random.Random) -> None:
    """Another number in place of one: a size, a bound, a line; the rest of a word such as `1024xf32` stays."""
    places = [n for n, piece in enumerate(pieces) if any(c.isdigit() for c in piece)]
    if places:
        at = draw.choice(places)
        value = draw.choice((*NUMBERS, 3, 4, 8, 16, 64, 128, 1024, 4096, 2**20, 2**24))
        pieces[at] = re.sub(r"\d+", str(abs(value)), pieces[at], count=1)


def json_like(value: Any, draw: random.Random) -> Any:
    """The same document with one to a few of its nodes replaced, taken out, doubled or swapped."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        value = _changed(value, draw)
    return value


def _changed(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict) and value and draw.random() < 0.9:
        return _changed_dict(dict(value), draw)
    if isinstance(value, list) and value and draw.random() < 0.9:
        return _changed_list(list(value), draw)
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.4:
        return value + draw.choice((-1, 1, 2, 100, 0.5))
    return draw.choice(VALUES)


def _changed_dict(value: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    key = draw.choice(list(value))
    what = draw.random()
    if what < 0.1:
        del value[key]
    elif what < 0.15:
        value[draw.choice((*TEXTS, "x", key.upper()))] = value.pop(key)
    elif what < 0.2:
        value[key] = value[draw.choice(list(value))]
    else:
        value[key] = _changed(value[key], draw)
    return value


def _changed_list(value: list[Any], draw: random.Random) -> list[Any]:
    at = draw.randrange(len(value))
    what = draw.random()
    if what < 0.1:
        del value[at]
    elif what < 0.2:
        value.insert(at, value[draw.randrange(len(value))])
    elif what < 0.25:
        draw.shuffle(value)
    else:
        value[at] = _changed(value[at], draw)
    return value
