"""Schedules a whole module: TTIR in, tile IR out."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu.dialect import AllocOp, BufferType, ReadOp, WriteOp
from tileprobe.targets.cpu.schedule import control, memory, products, reductions  # noqa: F401  (they register)
from tileprobe.targets.cpu.schedule.analysis import Analysis
from tileprobe.targets.cpu.schedule.carried import simplify_carried
from tileprobe.targets.cpu.schedule.lower import FunctionLowering
from tileprobe.targets.cpu.schedule.notes import Notes
from tileprobe.targets.cpu.schedule.places import Places
from tileprobe.targets.cpu.schedule.products import operand_forms
from tileprobe.targets.cpu.schedule.scratch import assign_scratch
from tileprobe.targets.cpu.schedule.ttir import attr_value, element_of, is_tensor, make, op_name, shape_of
from tileprobe.targets.cpu.schedule.verify import Verifier


def schedule(module: ModuleOp, same: str = "") -> ModuleOp:
    """The tile IR of a TTIR module. The module that comes in is changed on the way: hand in a copy to keep it.

    `same` names arguments that are the same tensor (see `targets/cpu/same_memory.py`).
    """
    places = Places(same)
    functions = [op for op in module.ops if op_name(op) == "tt.func"]
    if not functions:
        raise TileProbeError("the module has no kernel: schedule takes TTIR, whose kernels are tt.func")
    kernel = next((f for f in functions if attr_value(f, "sym_visibility") != "private"), functions[0])
    name = str(attr_value(kernel, "sym_name"))
    lowered = [schedule_function(function, name, places) for function in functions]
    result = ModuleOp([function for function, _ in lowered], {"tile.kernel": StringAttr(name)})
    for source, (function, notes) in zip(functions, lowered):
        drop_dead_buffers(function)
        assign_scratch(function)
        Verifier(name, source, function, notes, Places(same)).run()
    if places.apart:
        pairs = [StringAttr(f"{a} {b}") for a, b in sorted(places.apart)]
        result.attributes["tile.apart"] = ArrayAttr(pairs)
    return result


def schedule_function(function: Operation, kernel: str, places: Places) -> tuple[Operation, Notes]:
    simplify_carried(function)
    analysis = Analysis(function, operand_forms(function))
    low = FunctionLowering(function, analysis, kernel, places)
    region = function.regions[0]
    sources = list(region.blocks)
    blocks = [Block(arg_types=[_argument_type(a.type) for a in b.args] if i == 0 else
                    [a.type for a in b.args if not is_tensor(a)]) for i, b in enumerate(sources)]  # fmt: skip
    low.blocks = dict(zip(sources, blocks))
    if len(blocks) > 1:
        low.entry = blocks[0]
    for old, new in zip(sources[0].args, blocks[0].args):
        (low.buffers if is_tensor(old) else low.scalars)[old] = new
        if is_tensor(old):
            low.notes.arguments[new] = old
        new.name_hint = old.name_hint
    for source, block in zip(sources[1:], blocks[1:]):
        scalars = iter(block.args)
        for arg in source.args:
            if is_tensor(arg):
                low.buffers[arg] = low.alloc(shape_of(arg), element_of(arg.type))
            else:
                low.scalars[arg] = next(scalars)
    inputs, outputs = _signature(function, low, blocks[0])
    for source, block in zip(sources, blocks):
        low.lower_block(source, block)
    attributes: dict[str, Attribute] = {
        "sym_name": StringAttr(str(attr_value(function, "sym_name"))),
        "function_type": FunctionType.from_lists(inputs, outputs),
        "sym_visibility": StringAttr(str(attr_value(function, "sym_visibility", "public"))),
    }
    made = make("tt.func", [], [], attributes, [Region([*blocks, *low.edges])], like=function)
    return made, low.notes


def _signature(
    function: Operation, low: FunctionLowering, entry: Block
) -> tuple[list[Attribute], list[Attribute]]:
    """Argument and result types; tiles that are returned become buffers among the arguments."""
    kind = function.properties.get("function_type", function.attributes.get("function_type"))
    returned = list(kind.outputs) if isinstance(kind, FunctionType) else []
    low.return_buffers = [
        entry.insert_arg(_argument_type(t), len(entry.args)) for t in returned if is_tensor(t)
    ]
    return [a.type for a in entry.args], [t for t in returned if not is_tensor(t)]


def _argument_type(kind: Attribute) -> Attribute:
    if not is_tensor(kind):
        return kind
    return BufferType.of(tuple(kind.get_shape()), element_of(kind))  # type: ignore[attr-defined]


def drop_dead_buffers(function: Operation) -> None:
    """Remove buffers that are only written, and then what was computed only for them."""
    changed = True
    while changed:
        changed = False
        for op in list(function.walk()):
            if isinstance(op, AllocOp) and all(_writes(use.operation, op) for use in op.buffer.uses):
                for use in list(op.buffer.uses):
                    use.operation.detach()
                    use.operation.erase()
                op.detach()
                op.erase()
                changed = True
        changed = _drop_dead_ops(function) or changed


def _writes(op: Operation, alloc: AllocOp) -> bool:
    return isinstance(op, WriteOp) and op.buffer is alloc.buffer


_EFFECTS = (
    "tt.store", "tt.print", "tt.assert", "tt.call", "tt.return", "tt.atomic", "tt.func", "tt.map_elementwise",
    "tt.reduce.return", "tt.scan.return", "cf.", "scf.", "tile.", "probe.", "builtin.", "ub.",
)  # fmt: skip


def _drop_dead_ops(function: Operation) -> bool:
    changed = False
    for op in reversed(list(function.walk())):
        name = op_name(op)
        if any(r.uses for r in op.results) or not op.results:
            if name != "tile.nest" or op.results or not _empty(op):
                continue
        elif name.startswith(_EFFECTS) and not isinstance(op, ReadOp | AllocOp):
            continue
        op.detach()
        op.erase()
        changed = True
    return changed


def _empty(nest: Operation) -> bool:
    return not nest.operands and not any(
        isinstance(op, WriteOp)
        or op_name(op).startswith(("tt.store", "tt.atomic", "tt.print", "tt.assert", "tt.map_"))
        for op in nest.regions[0].block.ops
    )
