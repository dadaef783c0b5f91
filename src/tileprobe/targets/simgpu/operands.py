"""Operands as nvdisasm writes them, read: `-|R12|.reuse`, `c[0x0][0x160]`, `!UP3`, `desc[UR4][R2.64+0x10]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REGISTER = re.compile(
    r"(?P<sign>[-~]?)(?P<bar>\|?)(?P<kind>UR|R)(?P<number>\d+|Z)(?P<suffix>(?:\.\w+)*)\|?(?P<more>(?:\.\w+)*)"
)
_CONSTANT = re.compile(
    r"(?P<sign>[-~]?)(?P<bar>\|?)c\[0x(?P<bank>[0-9a-f]+)\] ?\[(?P<inside>[^\]]*)\]\|?(?P<suffix>(?:\.\w+)*)"
)
_PREDICATE = re.compile(r"(!?)(UP|P)(\d|T)")
_HEX = re.compile(r"-?0x[0-9a-f]+")
_LABEL = re.compile(r"`\((.+)\)")
_CONVERGENCE = re.compile(r"B(\d+)")
_PART = re.compile(r"(UR|R)(\d+|Z)((?:\.\w+)*)")
RZ, URZ = 255, 63


@dataclass(frozen=True)
class Operand:
    """`kind` is R, UR, P, UP, c, hex, label, B, address, or text for all else (numbers with a point, names)."""

    kind: str
    text: str
    number: int = 0
    negated: bool = False
    absolute: bool = False
    inverted: bool = False
    suffixes: tuple[str, ...] = ()
    bank: int = 0
    index: str = ""  # of a constant: the register in its address


@dataclass(frozen=True)
class Address:
    """register * scale + uniform + offset. `wide`: the register is a pair; likewise `uniform_wide`."""

    register: int = RZ
    wide: bool = False
    scale: int = 1
    uniform: int = URZ
    uniform_wide: bool = False
    offset: int = 0
    unsigned: bool = False
    descriptor: int = URZ


def _number(text: str, zero: int) -> int:
    return zero if text in "ZT" else int(text)


def read(text: str) -> Operand:
    if found := _PREDICATE.fullmatch(text):
        return Operand(found[2], text, _number(found[3], 7), negated=bool(found[1]))
    if found := _REGISTER.fullmatch(text):
        suffixes = tuple(s for s in (found["suffix"] + found["more"]).split(".") if s and s != "reuse")
        zero = RZ if found["kind"] == "R" else URZ
        return Operand(
            found["kind"], text, _number(found["number"], zero), found["sign"] == "-", bool(found["bar"]),
            found["sign"] == "~", suffixes,
        )  # fmt: skip
    if found := _CONSTANT.fullmatch(text):
        index, offset = _inside(found["inside"])
        suffixes = tuple(s for s in found["suffix"].split(".") if s and s != "reuse")
        return Operand(
            "c", text, offset, found["sign"] == "-", bool(found["bar"]), found["sign"] == "~", suffixes,
            int(found["bank"], 16), index,
        )  # fmt: skip
    if _HEX.fullmatch(text):
        return Operand("hex", text, int(text, 16))
    if found := _LABEL.fullmatch(text):
        return Operand("label", found[1])
    if found := _CONVERGENCE.fullmatch(text):
        return Operand("B", text, int(found[1]))
    if text.endswith("]"):
        return Operand("address", text)
    return Operand("text", text)


def _inside(text: str) -> tuple[str, int]:
    """What stands in the brackets of a constant: a register, an offset."""
    index, offset = "", 0
    for part in text.split("+"):
        if _HEX.fullmatch(part):
            offset += int(part, 16)
        elif part:
            index = part
    return index, offset


def read_address(text: str) -> Address | None:
    """`[R2.64+UR4+0x10]`, also behind `desc[UR4]`; None for what is written otherwise."""
    descriptor = URZ
    if found := re.match(r"desc\[UR(\d+|Z)\]", text):
        descriptor, text = _number(found[1], URZ), text[found.end() :]
    if not (text.startswith("[") and text.endswith("]")):
        return None
    made: dict = {"descriptor": descriptor}
    for part in text[1:-1].split("+"):
        part = part.strip()
        if _HEX.fullmatch(part):
            made["offset"] = made.get("offset", 0) + int(part, 16)
            continue
        found = _PART.fullmatch(part)
        if not found:
            return None
        suffixes = [s for s in found[3].split(".") if s and s != "reuse"]
        if ("uniform" if found[1] == "UR" else "register") in made:  # one of each at most
            return None
        if found[1] == "UR":
            made["uniform"] = _number(found[2], URZ)
            made["uniform_wide"] = "64" in suffixes
            rest = [s for s in suffixes if s != "64"]
        else:
            made["register"] = _number(found[2], RZ)
            made["wide"], made["unsigned"] = "64" in suffixes, "U32" in suffixes
            scales = [s for s in suffixes if re.fullmatch(r"X(4|8|16)", s)]
            made["scale"] = int(scales[0][1:]) if scales else 1
            rest = [s for s in suffixes if s not in ("64", "U32", *scales)]
        if rest:
            return None
    return Address(**made)
