"""Where a stage comes from: the user's lines and the kinds of operations fused into it."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from tileprobe.ir.accessors import op_name
from tileprobe.ir.locations import source_location

# Ops that only compute addresses, masks or types say nothing about what a stage does.
_SILENT = frozenset(
    [
        "arith.constant",
        "arith.cmpi",
        "arith.cmpf",
        "arith.extsi",
        "arith.extui",
        "arith.trunci",
        "arith.andi",
        "tt.addptr",
        "tt.bitcast",
        "arith.bitcast",
        "arith.index_cast",
    ]
)
_NAMES = {
    "addf": "add", "addi": "add", "subf": "sub", "subi": "sub", "mulf": "mul", "muli": "mul", "divf": "div",
    "maxnumf": "max", "minnumf": "min", "maximumf": "max", "minimumf": "min", "truncf": "cast", "extf": "cast",
    "fp_to_fp": "cast", "sitofp": "cast", "uitofp": "cast", "fptosi": "cast", "fptoui": "cast",
    "precise_divf": "div", "precise_sqrt": "sqrt", "atomic_rmw": "atomic", "atomic_cas": "atomic",
    "extern_elementwise": "libdevice", "select": "where", "maxsi": "max", "minsi": "min", "maxui": "max",
    "minui": "min", "dot_scaled": "dot",
}  # fmt: skip


def kind_of(op: Operation) -> str | None:
    """The word for what an op does, `load`, `mul`, `exp`; None for address arithmetic and the like."""
    name = op_name(op)
    if name in _SILENT:
        return None
    short = name.split(".")[-1]
    if short in ("addi", "muli", "subi", "remsi", "divsi", "remui", "divui", "ori", "xori"):
        return None  # mostly index arithmetic
    return _NAMES.get(short, short)


class Origin:
    """Collects the lines and kinds of the ops that go into a stage."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.lines: Counter[tuple[str, int]] = Counter()
        self._location: Attribute | None = None
        self._noted: Operation | None = None

    def add(self, op: Operation, kind: str | None = "") -> None:
        word = kind_of(op) if kind == "" else kind
        if word is not None and word not in self.kinds:
            self.kinds.append(word)
        if word is None:
            return
        place = source_location(op)
        if place is not None:
            # the line of the kernel itself, where a function it calls was inlined
            frame = place.callers[-1] if place.callers else place
            self.lines[(frame.file, frame.line)] += 1
            self._location = op.location

    def note(self, op: Operation | None) -> None:
        """Where a tile comes from that is only copied or filled, in case nothing better turns up."""
        self._noted = self._noted or op

    def properties(self, otherwise: str = "fill") -> dict[str, Attribute]:
        """`kinds = "load+mul"`, `lines = "path/kernel.py:41,42,44"` for the stage."""
        if not self.lines and self._noted is not None:
            self.add(self._noted, kind=otherwise)
        found: dict[str, Attribute] = {"kinds": StringAttr("+".join(self.kinds or [otherwise]))}
        if self.lines:
            files = Counter(file for file, _ in self.lines)
            main = files.most_common(1)[0][0]
            numbers = sorted({line for file, line in self.lines if file == main})
            found["lines"] = StringAttr(f"{main}:{','.join(map(str, numbers))}")
        return found

    def locate(self, op: Operation) -> None:
        if self._location is not None:
            op.location = self._location  # pyright: ignore[reportAttributeAccessIssue]


def properties_of(op: Operation) -> dict[str, Attribute]:
    """The same for a stage that comes from one op."""
    origin = Origin()
    origin.add(op)
    return origin.properties()
