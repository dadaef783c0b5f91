"""`cam.machine`: the device that a module is compiled for, and what differs from it."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr, f64, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cambricon.machine import Machine, load_machine


def _constant(value: object) -> Attribute:
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    return IntegerAttr(value, i64) if isinstance(value, int) else FloatAttr(cast(float, value), f64)


def _python(attribute: Attribute) -> object:
    if isinstance(attribute, IntegerAttr):
        return bool(attribute.value.data) if attribute.type != i64 else attribute.value.data
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    raise VerifyException(f"a machine's constant is a number or a flag, not {attribute}")


@irdl_op_definition
class MachineOp(IRDLOperation):
    """The machine that the module is compiled for: a device and what differs from it."""

    name = "cam.machine"
    device = prop_def(StringAttr)
    changes = opt_prop_def(DictionaryAttr)

    @staticmethod
    def of(machine: Machine) -> MachineOp:
        properties: dict[str, Attribute] = {"device": StringAttr(machine.origin)}
        if machine.changes:
            properties["changes"] = DictionaryAttr({k: _constant(v) for k, v in machine.changes.items()})
        return MachineOp(properties=properties)

    def machine(self) -> Machine:
        machine = load_machine(self.device.data)
        if self.changes is None:
            return machine
        return machine.replace(**{k: _python(v) for k, v in self.changes.data.items()})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.device.data)
        if self.changes is not None:
            printer.print_string(" with ")
            printer.print_attribute(self.changes)

    @classmethod
    def parse(cls, parser: Parser) -> MachineOp:
        properties: dict[str, Attribute] = {"device": StringAttr(parser.parse_str_literal())}
        if parser.parse_optional_keyword("with"):
            properties["changes"] = parser.parse_attribute()
        return MachineOp(properties=properties)


def find_machine(module: Operation) -> Machine:
    """The machine that a module is compiled for."""
    for op in module.walk():
        if isinstance(op, MachineOp):
            return op.machine()
    raise VerifyException("the module has no cam.machine")
