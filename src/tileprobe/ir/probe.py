"""The `probe` dialect: what to measure, on any machine and at any level of IR.

Regions are declared once, at the top of a kernel, with their name, kind and source lines; starts, stops,
marks, values and the issue, wait and done of asynchronous operations refer to them by number. There is no
buffer and no clock here: `probe-to-record` and a target's lowering bring those.

    probe.region 0 "attention" kind "kernel" at "attn.py":10:60
    probe.region 1 "dot @ 34" kind "dot" in 0 at "attn.py":34:34
    probe.start 0
    probe.start 1
    probe.stop 1
    probe.stop 0
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileprobe.ir.nesting import check_nesting
from tileprobe.ir.parts import Frame, Part, read_parts

FLOWS = "flows"  # an attribute of a region: `ir.flows.written`


@irdl_op_definition
class RegionOp(IRDLOperation):
    """Declares a region of the kernel: `probe.region 1 "dot @ 34" kind "dot" in 0 at "attn.py":34:36`, and behind it
    `does 8192 on 512` where its flops and bytes are known."""

    name = "probe.region"
    region = prop_def(IntAttr)
    label = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    within = opt_prop_def(IntAttr)
    file = opt_prop_def(StringAttr)
    first_line = opt_prop_def(IntAttr)
    last_line = opt_prop_def(IntAttr)
    lines = opt_prop_def(ArrayAttr[IntAttr])  # the lines one by one, when they are not all from first to last
    estimate = opt_prop_def(UnitAttr)
    parts = opt_prop_def(
        StringAttr
    )  # what its own time is made of, as JSON: [[share, kind, [[file, line], ...]], ...]
    flops = opt_prop_def(
        IntAttr
    )  # that one execution computes, and bytes that it asks for, but for regions inside
    bytes = opt_prop_def(IntAttr)

    @property
    def own_parts(self) -> tuple[Part, ...]:
        return () if self.parts is None else read_parts(json.loads(self.parts.data))

    def set_parts(self, parts: Sequence[Part]) -> None:
        self.parts = StringAttr(json.dumps(parts)) if parts else None

    @staticmethod
    def of(
        region: int,
        label: str,
        kind: str,
        parent: int | None = None,
        file: str = "",
        first_line: int = 0,
        last_line: int = 0,
        lines: Sequence[int] = (),
        estimate: bool = False,
    ) -> RegionOp:
        properties: dict[str, Attribute] = {
            "region": IntAttr(region),
            "label": StringAttr(label),
            "kind": StringAttr(kind),
        }
        if parent is not None:
            properties["within"] = IntAttr(parent)
        if first_line:
            properties |= {"file": StringAttr(file), "first_line": IntAttr(first_line)}
            properties["last_line"] = IntAttr(max(first_line, last_line))
        if lines:
            properties["lines"] = ArrayAttr([IntAttr(line) for line in lines])
        if estimate:
            properties["estimate"] = UnitAttr()
        return RegionOp(properties=properties)

    def verify_(self) -> None:
        if (self.file is None) != (self.first_line is None) or (self.file is None) != (
            self.last_line is None
        ):
            raise VerifyException(f"region {self.region.data} needs a file and both lines, or none of them")
        if self.first_line and self.last_line and self.last_line.data < self.first_line.data:
            raise VerifyException(f"region {self.region.data} ends before it begins")
        if self.within is None or self.parent is None:
            return
        known = [op.region.data for op in self.parent.ops if isinstance(op, RegionOp) and op is not self]
        if self.within.data not in known:
            raise VerifyException(f"region {self.region.data} lies in {self.within.data}, not declared here")
        if self.region.data in known:
            raise VerifyException(f"region {self.region.data} is declared twice")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.region.data} ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" kind ")
        printer.print_string_literal(self.kind.data)
        if self.within is not None:
            printer.print_string(f" in {self.within.data}")
        if self.file is not None and self.first_line is not None and self.last_line is not None:
            printer.print_string(" at ")
            printer.print_string_literal(self.file.data)
            printer.print_string(f":{self.first_line.data}:{self.last_line.data}")
        if self.lines is not None:
            printer.print_string(f" lines [{', '.join(str(line.data) for line in self.lines)}]")
        if self.estimate is not None:
            printer.print_string(" estimate")
        if self.flops is not None and self.bytes is not None:
            printer.print_string(f" does {self.flops.data} on {self.bytes.data}")
        _print_parts(printer, self.own_parts)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> RegionOp:
        region = parser.parse_integer()
        label = parser.parse_str_literal()
        parser.parse_keyword("kind")
        kind = parser.parse_str_literal()
        parent = parser.parse_integer() if parser.parse_optional_keyword("in") else None
        file, first, last = "", 0, 0
        if parser.parse_optional_keyword("at"):
            file = parser.parse_str_literal()
            parser.parse_punctuation(":")
            first = parser.parse_integer()
            parser.parse_punctuation(":")
            last = parser.parse_integer()
        lines: list[int] = []
        if parser.parse_optional_keyword("lines"):
            lines = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        op = RegionOp.of(region, label, kind, parent, file, first, last, lines)
        if first:
            op.last_line = IntAttr(last)  # as written: the verifier judges it
        if parser.parse_optional_keyword("estimate"):
            op.estimate = UnitAttr()
        if parser.parse_optional_keyword("does"):
            op.flops = IntAttr(parser.parse_integer())
            parser.parse_keyword("on")
            op.bytes = IntAttr(parser.parse_integer())
        if parser.parse_optional_keyword("parts"):
            op.set_parts(
                parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_part(parser))
            )
        op.attributes |= parser.parse_optional_attr_dict()
        return op


def _print_parts(printer: Printer, parts: Sequence[Part]) -> None:
    """` parts [0.75 "exp" at "helpers.py":9 at "attn.py":34, 0.25 "load" at "attn.py":33]`."""
    for n, part in enumerate(parts):
        printer.print_string(f"{', ' if n else ' parts ['}{part.share} ")
        printer.print_string_literal(part.kind)
        for file, line in part.frames:
            printer.print_string(" at ")
            printer.print_string_literal(file)
            printer.print_string(f":{line}")
    if parts:
        printer.print_string("]")


def _parse_part(parser: Parser) -> Part:
    share, kind = float(parser.parse_number()), parser.parse_str_literal()
    frames: list[Frame] = []
    while parser.parse_optional_keyword("at"):
        file = parser.parse_str_literal()
        parser.parse_punctuation(":")
        frames.append((file, parser.parse_integer()))
    return Part(share, kind, tuple(frames))


class ProbeOp(IRDLOperation):
    """A probe of a region. `ahead` is how many iterations an operation runs before its logical one (software
    pipelining); on a copy peeled off a loop, `peeled` is the number that the loop has in `probe.loop` and
    `ahead` the copy's iteration, counted from the end when negative. An issue and a wait of one region belong
    together where their logical iterations are the same."""

    region = prop_def(IntAttr)
    ahead = opt_prop_def(IntAttr)
    peeled = opt_prop_def(IntAttr)
    # A probe reads a clock and writes a record: nothing may move over it or remove it.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, region: int, *, ahead: int = 0, peeled: int | None = None, **rest: Any) -> None:
        properties: dict[str, Attribute] = {"region": IntAttr(region), **rest.pop("properties", {})}
        if ahead:
            properties["ahead"] = IntAttr(ahead)
        if peeled is not None:
            properties["peeled"] = IntAttr(peeled)
        super().__init__(properties=properties, **rest)

    @property
    def region_id(self) -> int:
        return self.region.data

    def verify_(self) -> None:
        declared = declarations(self)
        if declared and self.region.data not in declared:
            raise VerifyException(f"{self.name} names region {self.region.data}, which is not declared")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.region.data}")
        self.print_rest(printer)
        if self.ahead is not None:
            printer.print_string(f" ahead {self.ahead.data}")
        if self.peeled is not None:
            printer.print_string(f" peeled {self.peeled.data}")
        printer.print_op_attributes(self.attributes)

    def print_rest(self, printer: Printer) -> None:
        """What a probe has beyond its region."""

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Any]:
        return {}

    @classmethod
    def parse(cls, parser: Parser) -> ProbeOp:
        region = parser.parse_integer()
        rest = cls.parse_rest(parser)
        ahead = parser.parse_integer() if parser.parse_optional_keyword("ahead") else 0
        peeled = parser.parse_integer() if parser.parse_optional_keyword("peeled") else None
        op = cls(region, ahead=ahead, peeled=peeled, **rest)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class StartOp(ProbeOp):
    """A region begins here. Its stop closes it in the same nesting, on every path."""

    name = "probe.start"

    def verify_(self) -> None:
        super().verify_()
        check_nesting(self, StartOp, StopOp)


@irdl_op_definition
class StopOp(ProbeOp):
    """A region ends here."""

    name = "probe.stop"

    def verify_(self) -> None:
        super().verify_()
        check_nesting(self, StartOp, StopOp)


@irdl_op_definition
class MarkOp(ProbeOp):
    """An instant worth knowing."""

    name = "probe.mark"


@irdl_op_definition
class ValueOp(ProbeOp):
    """An instant with a payload: `probe.value 3, %k : i32`. An integer or a float of at most 64 bits."""

    name = "probe.value"
    payload = operand_def()

    def __init__(self, region: int, payload: SSAValue | None = None, **rest: Any) -> None:
        operands = [payload] if payload is not None else rest.pop("operands")
        super().__init__(region, operands=operands, **rest)

    def verify_(self) -> None:
        super().verify_()
        text = str(self.payload.type)
        if text != "index" and not (
            text[0] in "iusfb" and text.strip("abcdefghijklmnopqrstuvwxyz").isdigit()
        ):
            raise VerifyException(f"a payload is an integer or a float, not {text}")

    def print_rest(self, printer: Printer) -> None:
        printer.print_string(", ")
        printer.print_ssa_value(self.payload)
        printer.print_string(" : ")
        printer.print_attribute(self.payload.type)

    @classmethod
    def parse_rest(cls, parser: Parser) -> dict[str, Any]:
        parser.parse_punctuation(",")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return {"operands": [parser.resolve_operand(operand, parser.parse_type())]}


@irdl_op_definition
class IssueOp(ProbeOp):
    """An asynchronous operation is about to be issued. It need not nest with anything."""

    name = "probe.issue"


@irdl_op_definition
class WaitOp(ProbeOp):
    """The program is about to wait for the operation of its region that belongs to its logical iteration."""

    name = "probe.wait"


@irdl_op_definition
class DoneOp(ProbeOp):
    """The wait that the `probe.wait` of the same region announced is over."""

    name = "probe.done"


def declarations(op: Operation) -> dict[int, RegionOp]:
    """The regions declared in the kernel around `op`; empty when it stands alone."""
    parent = op.parent_op()
    while parent is not None:
        for region in parent.regions:
            first = region.blocks.first
            found = [o for o in first.ops if isinstance(o, RegionOp)] if first is not None else []
            if found:
                return {o.region.data: o for o in found}
        parent = parent.parent_op()
    return {}


Probe = Dialect("probe", [RegionOp, StartOp, StopOp, MarkOp, ValueOp, IssueOp, WaitOp, DoneOp], [])
