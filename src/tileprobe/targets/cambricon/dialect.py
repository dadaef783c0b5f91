"""The `cam` dialect: a decode or prefill step of a model, its layers as a loop, its matrices as single ops.

    cam.machine "cambricon:s" with {channels = 4 : i64}
    cam.step @"opt-6.7b" decode tokens 1 context 1000 weights "w8a8" mode "split" {
    ^bb0(%x : !cam.vector<4096>):
      %y = cam.layers 32 (%x) {
      ^bb0(%h : !cam.vector<4096>):
        %n = cam.special "layernorm"(%h) passes 3 reads 16384 -> 4096
        %q = cam.gemv "q"(%n) 4096 x 4096 bias tile <rows 256, cols 2048>
        ...
        cam.yield %r
      }
      cam.return
    }

Passes add `tile`, `split` and `buffers` to a gemv and finally a body of command loops
(`commands.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileprobe.targets.cambricon.attributes import (
    BuffersAttr,
    ExpertsAttr,
    SplitAttr,
    TileAttr,
    VectorType,
)
from tileprobe.targets.cambricon.commands import COMMANDS
from tileprobe.targets.cambricon.machine import Machine, load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT
from tileprobe.targets.cambricon.precision import PRECISIONS


def _length(value: SSAValue) -> int:
    return cast(VectorType, value.type).length.data


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


@irdl_op_definition
class StepOp(IRDLOperation):
    """One step of a model: a token decoded, or a prompt of `tokens` prefilled."""

    name = "cam.step"
    sym_name = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    tokens = prop_def(IntAttr)
    sequences = opt_prop_def(
        IntAttr
    )  # that the tokens belong to, each with a cache of its own; 1 when not given
    context = prop_def(IntAttr)
    weights = prop_def(StringAttr)
    mode = prop_def(StringAttr)
    sliced = opt_prop_def(UnitAttr)
    body = region_def("single_block")

    @property
    def batch(self) -> int:
        return 1 if self.sequences is None else self.sequences.data

    def verify_(self) -> None:
        if self.kind.data not in ("decode", "prefill"):
            raise VerifyException(f"a step is a decode or a prefill, not {self.kind.data!r}")
        if self.weights.data not in PRECISIONS:
            raise VerifyException(f"weights are {' or '.join(PRECISIONS)}, not {self.weights.data!r}")
        if self.mode.data not in (SPLIT, FLASH_ONLY, NPU_ONLY):
            raise VerifyException(f"mode is {SPLIT}, {FLASH_ONLY} or {NPU_ONLY}, not {self.mode.data!r}")
        if self.batch < 1 or self.tokens.data % self.batch:
            raise VerifyException(f"{self.tokens.data} tokens do not belong to {self.batch} sequences evenly")
        if self.tokens.data < 1 or self.context.data < 0:
            raise VerifyException("a step has at least one token and no negative context")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(
            f" {self.kind.data} tokens {self.tokens.data}"
            + (f" sequences {self.batch}" if self.batch > 1 else "")
            + f" context {self.context.data} weights "
        )
        printer.print_string_literal(self.weights.data)
        printer.print_string(" mode ")
        printer.print_string_literal(self.mode.data)
        printer.print_string(" sliced" if self.sliced is not None else "")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> StepOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        properties["kind"] = StringAttr(parser.parse_identifier())
        parser.parse_keyword("tokens")
        properties["tokens"] = IntAttr(parser.parse_integer())
        if parser.parse_optional_keyword("sequences"):
            properties["sequences"] = IntAttr(parser.parse_integer())
        parser.parse_keyword("context")
        properties["context"] = IntAttr(parser.parse_integer())
        for word in ("weights", "mode"):
            parser.parse_keyword(word)
            properties[word] = StringAttr(parser.parse_str_literal())
        if parser.parse_optional_keyword("sliced"):
            properties["sliced"] = UnitAttr()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = StepOp(properties=properties, regions=[parser.parse_region()])
        op.attributes |= attributes.data if attributes else {}
        return op


@irdl_op_definition
class LayersOp(IRDLOperation):
    """The decoder layers, one after the other: every layer's output is the next one's input."""

    name = "cam.layers"
    count = prop_def(IntAttr)
    routes = opt_prop_def(ArrayAttr)  # the experts of each layer; -1 - n: expert n, which is in DRAM
    init = operand_def(VectorType)
    out = result_def(VectorType)
    body = region_def("single_block")

    @staticmethod
    def of(
        count: int, init: SSAValue, body: Region, routes: Sequence[Sequence[int]] | None = None
    ) -> LayersOp:
        properties: dict[str, Attribute] = {"count": IntAttr(count)}
        if routes is not None:
            properties["routes"] = ArrayAttr(
                [ArrayAttr([IntegerAttr(e, i64) for e in one]) for one in routes]
            )
        return LayersOp(operands=[init], result_types=[init.type], properties=properties, regions=[body])

    def experts(self, layer: int, active: int) -> list[int]:
        """The experts that a token meets in a layer, counted within this loop."""
        if self.routes is None:
            return list(range(active))
        return [e.value.data for e in self.routes.data[layer].data]  # pyright: ignore

    def verify_(self) -> None:
        if self.count.data < 1:
            raise VerifyException(f"a model has at least one layer, found {self.count.data}")
        if self.routes is not None and len(self.routes.data) != self.count.data:
            raise VerifyException(f"{len(self.routes.data)} routes for {self.count.data} layers")
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body of cam.layers ends with cam.yield")
        if self.body.block.last_op.value.type != self.init.type:
            raise VerifyException("a layer yields a vector as long as the one it takes")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.count.data} (")
        printer.print_ssa_value(self.init)
        printer.print_string(")")
        if self.routes is not None:
            printer.print_string(" routes ")
            printer.print_attribute(self.routes)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> LayersOp:
        count = parser.parse_integer()
        parser.parse_punctuation("(")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(")")
        routes = parser.parse_attribute() if parser.parse_optional_keyword("routes") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        kind = body.block.args[0].type
        op = LayersOp.of(count, parser.resolve_operand(operand, kind), body)
        if routes is not None:
            op.properties["routes"] = routes
        op.attributes |= attributes.data if attributes else {}
        return op


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a layer with the vector for the next one."""

    name = "cam.yield"
    value = operand_def(VectorType)
    traits = traits_def(IsTerminator(), HasParent(LayersOp))
    assembly_format = "$value attr-dict `:` type($value)"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a step."""

    name = "cam.return"
    traits = traits_def(IsTerminator(), HasParent(StepOp))
    assembly_format = "attr-dict"


@irdl_op_definition
class SpecialOp(IRDLOperation):
    """A special function on the NPU: `passes` over the elements of its result, `reads` bytes of gains or
    biases.
    """

    name = "cam.special"
    label = prop_def(StringAttr)
    passes = prop_def(IntAttr)
    reads = prop_def(IntAttr)
    inputs = var_operand_def(VectorType)
    out = result_def(VectorType)

    @staticmethod
    def of(label: str, inputs: Sequence[SSAValue], length: int, passes: int = 1, reads: int = 0) -> SpecialOp:
        properties = {"label": StringAttr(label), "passes": IntAttr(passes), "reads": IntAttr(reads)}
        return SpecialOp(operands=[inputs], result_types=[VectorType.of(length)], properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        _print_operands(printer, self.inputs)
        printer.print_string(f" passes {self.passes.data} reads {self.reads.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        _print_types(printer, self.inputs, self.out)

    @classmethod
    def parse(cls, parser: Parser) -> SpecialOp:
        label = parser.parse_str_literal()
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("passes")
        passes = parser.parse_integer()
        parser.parse_keyword("reads")
        reads = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inputs, out = _parse_types(parser, operands)
        op = SpecialOp.of(label, inputs, out.length.data, passes, reads)
        op.attributes |= attributes.data if attributes else {}
        return op


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """Attention on the NPU's array over the KV cache in DRAM, and over the oldest `flash` tokens of it in flash, whose
    pages the body reads. `window` is how far it sees (0: all). With `latent` n, one vector of `dim` values is key and,
    in its first n, value for all heads.
    """

    name = "cam.attention"
    heads = prop_def(IntAttr)
    kv_heads = prop_def(IntAttr)
    head_dim = prop_def(IntAttr)
    window = prop_def(IntAttr)
    flash = prop_def(IntAttr)
    latent = prop_def(IntAttr)
    inputs = var_operand_def(VectorType)
    out = result_def(VectorType)
    body = opt_region_def()
    traits = traits_def(NoTerminator())
    WORDS: ClassVar[dict[str, str]] = {
        "heads": "heads", "kv": "kv_heads", "dim": "head_dim", "window": "window", "flash": "flash", "latent": "latent"
    }  # fmt: skip

    @staticmethod
    def of(
        inputs: Sequence[SSAValue], heads: int, kv_heads: int, head_dim: int, window: int = 0, flash: int = 0,
        latent: int = 0,
    ) -> AttentionOp:  # fmt: skip
        numbers = zip(AttentionOp.WORDS.values(), (heads, kv_heads, head_dim, window, flash, latent))
        properties: dict[str, Attribute] = {name: IntAttr(number) for name, number in numbers}
        out = VectorType.of(heads * (latent or head_dim))
        return AttentionOp(operands=[inputs], result_types=[out], properties=properties, regions=[[]])

    @property
    def cached_values(self) -> int:
        """Values that it keeps of each token."""
        return self.head_dim.data if self.latent.data else 2 * self.kv_heads.data * self.head_dim.data

    def seen(self, context: int) -> int:
        """Tokens of a context that it sees."""
        return min(context, self.window.data) if self.window.data else context

    def verify_(self) -> None:
        heads, kv, dim = self.heads.data, self.kv_heads.data, self.head_dim.data
        if heads % kv:
            raise VerifyException(f"{heads} heads cannot share {kv} key and value heads evenly")
        if self.latent.data > dim or (self.latent.data and kv != 1):
            raise VerifyException(f"a latent part of {self.latent.data} in {kv} vectors of {dim} is none")
        lengths = [_length(value) for value in self.inputs]
        expected = [heads * dim, dim] if self.latent.data else [heads * dim, kv * dim, kv * dim]
        if lengths != expected:
            raise VerifyException(f"attention takes q, k, v of {expected}, found {lengths}")

    def print(self, printer: Printer) -> None:
        _print_operands(printer, self.inputs)
        for n, (word, name) in enumerate(self.WORDS.items()):
            number = self.properties[name].data  # pyright: ignore
            if n < 3 or number:
                printer.print_string(f" {word} {number}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        _print_types(printer, self.inputs, self.out)
        if self.body is not None and self.body.blocks:
            printer.print_string(" ")
            printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> AttentionOp:
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        numbers = []
        for n, word in enumerate(cls.WORDS):
            if n < 3:
                parser.parse_keyword(word)
            numbers.append(parser.parse_integer() if n < 3 or parser.parse_optional_keyword(word) else 0)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        inputs, _ = _parse_types(parser, operands)
        op = AttentionOp.of(inputs, *numbers)
        op.attributes |= attributes.data if attributes else {}
        region = parser.parse_optional_region()
        if region is not None:
            op.add_region(region)
        return op


@irdl_op_definition
class GemvOp(IRDLOperation):
    """A weight matrix times a vector. Products of one vector that stand together run together (`group`)."""

    name = "cam.gemv"
    label = prop_def(StringAttr)
    rows = prop_def(IntAttr)
    cols = prop_def(IntAttr)
    bias = opt_prop_def(UnitAttr)
    experts = opt_prop_def(ExpertsAttr)
    tile = opt_prop_def(TileAttr)
    split = opt_prop_def(SplitAttr)
    buffers = opt_prop_def(BuffersAttr)
    vector = operand_def(VectorType)
    out = result_def(VectorType)
    body = opt_region_def()
    traits = traits_def(NoTerminator())

    @staticmethod
    def of(
        label: str,
        vector: SSAValue,
        rows: int,
        cols: int,
        bias: bool = False,
        experts: ExpertsAttr | None = None,
    ) -> GemvOp:
        properties: dict[str, Attribute] = {
            "label": StringAttr(label),
            "rows": IntAttr(rows),
            "cols": IntAttr(cols),
        }
        if bias:
            properties["bias"] = UnitAttr()
        if experts is not None:
            properties["experts"] = experts
        out = rows if experts is None or experts.joined.data == 1 else rows * experts.active.data
        return GemvOp(
            operands=[vector], result_types=[VectorType.of(out)], properties=properties, regions=[[]]
        )

    @property
    def ends(self) -> tuple[int, int]:
        """Lengths of the vectors that it takes and makes."""
        cols, rows = self.cols.data, self.rows.data
        if self.experts is None:
            return cols, rows
        active, joined = self.experts.active.data, self.experts.joined.data
        return cols * (active if joined else 1), rows * (1 if joined == 1 else active)

    def verify_(self) -> None:
        if (_length(self.vector), _length(self.out)) != self.ends:
            raise VerifyException(
                f"{self.label.data}: {self.rows.data} x {self.cols.data} does not take a vector of "
                f"{_length(self.vector)} "
                f"to one of {_length(self.out)}"
            )
        stages = [self.tile, self.split, self.buffers]
        if any(b is not None for a, b in pairwise(stages) if a is None):
            raise VerifyException(f"{self.label.data}: a gemv is tiled, split and buffered in this order")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string("(")
        printer.print_ssa_value(self.vector)
        printer.print_string(f") {self.rows.data} x {self.cols.data}")
        printer.print_string(" bias" if self.bias is not None else "")
        for stage in (self.experts, self.tile, self.split, self.buffers):
            if stage is not None:
                printer.print_string(f" {stage.name.removeprefix('cam.')} ")
                stage.print_parameters(printer)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        if self.body is not None:
            printer.print_string(" ")
            printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> GemvOp:
        label = parser.parse_str_literal()
        parser.parse_punctuation("(")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(")")
        rows = parser.parse_integer()
        parser.parse_keyword("x")
        cols = parser.parse_integer()
        bias = parser.parse_optional_keyword("bias") is not None
        experts, length = None, cols
        if parser.parse_optional_keyword("experts"):
            experts = ExpertsAttr.read(parser)
            length = cols * (experts.active.data if experts.joined.data else 1)
        op = GemvOp.of(
            label, parser.resolve_operand(operand, VectorType.of(length)), rows, cols, bias, experts
        )
        for stage in (TileAttr, SplitAttr, BuffersAttr):
            word = stage.name.removeprefix("cam.")
            if parser.parse_optional_keyword(word):
                op.properties[word] = stage.read(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op.attributes |= attributes.data if attributes else {}
        region = parser.parse_optional_region()
        if region is not None:
            op.add_region(region)
        return op


def _print_operands(printer: Printer, values: Sequence[SSAValue]) -> None:
    printer.print_string("(")
    printer.print_list(values, printer.print_ssa_value)
    printer.print_string(")")


def _print_types(printer: Printer, inputs: Sequence[SSAValue], out: SSAValue) -> None:
    printer.print_string(" : (")
    printer.print_list(inputs, lambda value: printer.print_attribute(value.type))
    printer.print_string(") -> ")
    printer.print_attribute(out.type)


def _parse_types(parser: Parser, operands: list) -> tuple[list[SSAValue], VectorType]:
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    parser.parse_punctuation("->")
    out = parser.parse_type()
    if not isinstance(out, VectorType):
        parser.raise_error(f"expected a cam.vector, found {out}")
    return list(parser.resolve_operands(operands, types, parser.pos)), out


def find_machine(module: Operation) -> Machine:
    """The machine that a module is compiled for."""
    for op in module.walk():
        if isinstance(op, MachineOp):
            return op.machine()
    raise VerifyException("the module has no cam.machine")


def groups(block: Block) -> list[list[GemvOp]]:
    """Products of one vector that stand next to each other, in program order; probes between them do not
    part them.
    """
    found: list[list[GemvOp]] = []
    apart = True
    for op in block.ops:
        if isinstance(op, GemvOp):
            if apart or found[-1][-1].vector is not op.vector:
                found.append([])
            found[-1].append(op)
            apart = False
        elif not op.name.startswith("probe."):
            apart = True
    return found


Cam = Dialect(
    "cam",
    [MachineOp, StepOp, LayersOp, YieldOp, ReturnOp, SpecialOp, AttentionOp, GemvOp, *COMMANDS],
    [VectorType, ExpertsAttr, TileAttr, SplitAttr, BuffersAttr],
)
