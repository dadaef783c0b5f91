"""Changes of IR that leave it IR: in comes a text, out goes one that still parses most of the time.

Words at random mostly end at the parser. Here operations are swapped for others of their family, operands for values of
the same type, sizes and element types change everywhere at once, lines are taken out with their uses, doubled under
another name, or moved: what passes read then is well formed, and means something that nobody wrote.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

FAMILIES = (
    ("arith.addi", "arith.subi", "arith.muli", "arith.divsi", "arith.remsi", "arith.andi", "arith.maxsi", "arith.shli"),
    ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maxnumf", "arith.minimumf", "arith.remf"),
    ("math.exp", "math.log", "math.sin", "math.sqrt", "math.absf", "math.erf", "math.exp2", "arith.negf"),
    ("slt", "sgt", "ult", "eq", "ne", "sge"),
    ("probe.start", "probe.stop"),
    ("tile.read", "tile.write"),
    ("x", "y", "z"),
)  # fmt: skip
TYPES = ("f32", "f16", "f64", "bf16", "i32", "i64", "i8", "i1", "index")
SIZES = ("0", "1", "2", "3", "16", "64", "1000", "4096", "1048576")
_RESULT = re.compile(r"^\s*(%\w+)(?::\d+)? = ")
_VALUE = re.compile(r"%\w+(?:#\d+)?")


def structured(text: str, draw: random.Random) -> str:
    """One to a few changes; some draws find nothing to change, so that there are a few more of them."""
    wanted, made = draw.choice((1, 1, 2, 3, 6)), 0
    for _ in range(wanted + 8):
        changed = draw.choice(CHANGES)(text, draw)
        made, text = made + (changed != text), changed
        if made == wanted:
            break
    return text


def _family(text: str, draw: random.Random) -> str:
    """An operation becomes another one with the same operands."""
    family = draw.choice(FAMILIES)
    places = [m for name in family for m in re.finditer(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)]
    return _put(text, draw.choice(places), draw.choice(family)) if places else text


def _operand(text: str, draw: random.Random) -> str:
    """A value is used where another one was: one whose definition ends alike, so that it is likely of its type."""
    kinds: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if (found := _RESULT.match(line)) is not None:
            kinds.setdefault(_type_of(line), []).append(found[1])
    several = [names for names in kinds.values() if len(names) > 1]
    if not several:
        return text
    names = draw.choice(several)
    old = draw.choice(names)
    uses = list(re.finditer(rf"{re.escape(old)}(?!\w)(?! = )", text))
    return _put(text, draw.choice(uses), draw.choice(names)) if uses else text


def _type_of(line: str) -> str:
    code = re.sub(r" loc\(.*\)$", "", line.rstrip())
    return re.split(r"->| : ", code)[-1].strip()


def _size(text: str, draw: random.Random) -> str:
    """A number changes wherever it is: tiles of another size, other bounds."""
    numbers = re.findall(r"(?<![\w%.#])\d+(?=x|[\], :}])", text)
    if not numbers:
        return text
    old, new = draw.choice(numbers), draw.choice(SIZES)
    return re.sub(rf"(?<![\w%.#:]){old}(?=x|[\], :}}])", new, text)


def _element(text: str, draw: random.Random) -> str:
    """A type changes wherever it is."""
    there = [name for name in TYPES if re.search(rf"(?<![a-z]){name}\b", text)]
    if not there:
        return text
    return re.sub(rf"(?<![a-z]){draw.choice(there)}\b", draw.choice(TYPES), text)


def _without(text: str, draw: random.Random) -> str:
    """An operation is taken out; what used it uses an operand of it, or another value."""
    lines = text.split("\n")
    at, name = _one(lines, draw)
    if name is None:
        return text
    rest = [value for value in _VALUE.findall(lines[at]) if value != name]
    gone = lines.pop(at)
    if gone.rstrip().endswith("{"):
        return text
    return re.sub(rf"{re.escape(name)}(?!\w)", rest[0] if rest else "%none", "\n".join(lines))


def _twice(text: str, draw: random.Random) -> str:
    """An operation stands there twice, the second time under another name; something uses the second."""
    lines = text.split("\n")
    at, name = _one(lines, draw)
    if name is None or lines[at].rstrip().endswith("{"):
        return text
    other = f"%again_{draw.randrange(1000)}"
    lines.insert(at + 1, lines[at].replace(f"{name} =", f"{other} =", 1))
    later = "\n".join(lines[at + 2 :])
    uses = list(re.finditer(rf"{re.escape(name)}(?!\w)", later))
    return "\n".join([*lines[: at + 2], _put(later, draw.choice(uses), other) if uses else later])


def _moved(text: str, draw: random.Random) -> str:
    """A line changes places with its neighbour, or a whole body is doubled."""
    lines = text.split("\n")
    at = draw.randrange(max(1, len(lines) - 1))
    if at + 1 < len(lines) and not any("{" in line or "}" in line for line in lines[at : at + 2]):
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "\n".join(lines)


def _nested(text: str, draw: random.Random) -> str:
    """A region with all that is in it stands there twice, or is empty."""
    lines = text.split("\n")
    opens = [n for n, line in enumerate(lines) if line.rstrip().endswith("{") and n > 1]
    if not opens:
        return text
    first = draw.choice(opens)
    depth, end = 0, first
    while end < len(lines):
        depth += lines[end].count("{") - lines[end].count("}")
        if depth <= 0:
            break
        end += 1
    if draw.random() < 0.3:
        keep = [line for line in lines[first + 1 : end] if "yield" in line or "return" in line][-1:]
        return "\n".join([*lines[: first + 1], *keep, *lines[end:]])
    body = "\n".join(lines[first : end + 1])
    names = {found[1] for line in body.split("\n") if (found := _RESULT.match(line)) is not None}
    mark = f"_n{draw.randrange(1000)}"
    again = re.sub(
        r"%\w+",
        lambda m: m[0] + mark if m[0] in names or f"({m[0]}" in body.split("\n")[0] else m[0],
        body,
    )
    return "\n".join([*lines[: end + 1], again, *lines[end + 1 :]])


def _attribute(text: str, draw: random.Random) -> str:
    """The number of an attribute, or a flag, becomes another one."""
    places = list(re.finditer(r"(?<== )(-?\d+)(?= : )|(?<== )(true|false)", text))
    if not places:
        return text
    return _put(text, draw.choice(places), draw.choice((*SIZES, "-1", "2147483647", "true", "false")))


def _one(lines: list[str], draw: random.Random) -> tuple[int, str | None]:
    """A line that defines a value, and its name."""
    found = [(n, m[1]) for n, line in enumerate(lines) if (m := _RESULT.match(line)) is not None]
    return draw.choice(found) if found else (0, None)


def _put(text: str, place: re.Match[str], new: str) -> str:
    return text[: place.start()] + new + text[place.end() :]


CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _family,
    _family,
    _operand,
    _operand,
    _size,
    _element,
    _without,
    _twice,
    _moved,
    _nested,
    _attribute,
)
