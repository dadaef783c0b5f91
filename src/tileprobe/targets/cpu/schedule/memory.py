"""Stores, atomics, prints and assertions: the ops whose effects are the point of a stage."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tileprobe.targets.cpu.schedule.analysis import Form
from tileprobe.targets.cpu.schedule.lower import FunctionLowering, handler
from tileprobe.targets.cpu.schedule.nest import NestBuilder
from tileprobe.targets.cpu.schedule.places import distinct
from tileprobe.targets.cpu.schedule.ttir import (
    element_of,
    is_elementwise,
    is_tensor,
    is_virtual,
    make,
    op_name,
    owner_op,
    shape_of,
)


@handler("tt.store")
def lower_store(low: FunctionLowering, op: Operation) -> None:
    if not is_tensor(op.operands[0]):
        low.close()
        low.lower_scalar(op)
        return
    for load in _loads_at_risk(low, op):
        low.keep(load, [Form(element_of(load.type))])
    if low.open is not None and not _may_join(low, low.open, op.operands[0]):
        low.close()

    def work(nest: NestBuilder) -> None:
        operands = [nest.value(v) for v in op.operands]
        nest.origin.add(op)
        copy = _scalar_copy(op, operands)
        low.notes.accesses[copy] = op
        nest.block.add_op(copy)
        nest.stores = True
        nest.stored.append(op.operands[0])

    low.into_nest(shape_of(op.operands[0]), work)


def _may_join(low: FunctionLowering, nest: NestBuilder, pointer: SSAValue) -> bool:
    """May a store go into a nest, behind the accesses that are there, element by element?

    An earlier store could win over a later one, too, where their places overlap.
    """
    before = [*nest.loaded, *((stored, True) for stored in nest.stored)]
    return all(
        not low.places.may_meet(other, pointer)
        or (in_place and low.places.same(other, pointer) and distinct(pointer))
        for other, in_place in before
    )


def _loads_at_risk(low: FunctionLowering, store: Operation) -> list[SSAValue]:
    """Loads in the stored expression from memory that is stored to, unless each element has a place of its own.

    Element by element, such a load could see what an earlier element stored; all loads come first in Triton.
    """
    target = store.operands[0]
    # Lanes of an atomic may share a place: even a load from the very same pointer has to come first.
    own_places = op_name(store) == "tt.store" and distinct(target)
    found: dict[SSAValue, None] = {}
    seen: set[tuple[SSAValue, bool]] = set()
    todo = [(value, True) for value in store.operands]
    while todo:
        value, in_place = todo.pop()
        op = owner_op(value)
        if (value, in_place) in seen or value in low.buffers or op is None or not is_virtual(op_name(op)):
            continue
        seen.add((value, in_place))
        if op_name(op) == "tt.load" and is_tensor(value) and low.places.may_meet(op.operands[0], target):
            if not (own_places and in_place and low.places.same(op.operands[0], target)):
                found[value] = None
                continue
        in_place = in_place and is_elementwise(op_name(op))
        todo.extend((v, in_place) for v in op.operands if is_tensor(v))
    return list(found)


@handler("tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll")
def lower_atomic(low: FunctionLowering, op: Operation) -> None:
    low.close()
    if not any(map(is_tensor, op.operands)):
        low.lower_scalar(op)
        return
    for load in _loads_at_risk(low, op):
        low.keep(load, [Form(element_of(load.type))])
    low.close()
    nest = low.nest(shape_of(op.operands[0]))
    copy = _scalar_copy(op, [nest.value(v) for v in op.operands])
    nest.origin.add(op)
    low.notes.accesses[copy] = op
    nest.block.add_op(copy)
    for old, new in zip(op.results, copy.results):
        if old.uses:
            buffer = low.alloc(shape_of(old), element_of(old.type))
            nest.write(new, buffer, of=old)
            low.buffers[old] = buffer
    low.close()


@handler("tt.print", "tt.assert")
def lower_message(low: FunctionLowering, op: Operation) -> None:
    low.close()
    tiles = [v for v in op.operands if is_tensor(v)]
    if not tiles:
        low.lower_scalar(op)
        return
    nest = low.nest(shape_of(tiles[0]))
    copy = _scalar_copy(op, [nest.value(v) for v in op.operands])
    copy.operands = [*copy.operands, *(nest.index(i) for i in nest.identity)]
    nest.origin.add(op)
    nest.block.add_op(copy)
    low.close()


@handler(
    "ttg.barrier",
    "gpu.barrier",
    "ttg.local_barrier",
    "tt.grid_dependency_wait",
    "tt.grid_dependency_launch_dependents",
)
def lower_barrier(low: FunctionLowering, op: Operation) -> None:
    """A program runs on one core, stage after stage: a barrier only ends the stage."""
    low.close()


@handler("proton.record")
def lower_proton(low: FunctionLowering, op: Operation) -> None:
    """Proton's scopes are taken from the source lines, as ours are; its markers do nothing here."""


@handler("tt.unsplat")
def lower_unsplat(low: FunctionLowering, op: Operation) -> None:
    from tileprobe.targets.cpu.dialect import ReadOp
    from tileprobe.targets.cpu.schedule.ttir import constant

    buffer = low.dense(op.operands[0])
    low.close()
    zeros = [constant(0) for _ in shape_of(op.operands[0])]
    for zero in zeros:
        low.emit(zero)
    read = ReadOp.create(operands=[buffer, *(z.results[0] for z in zeros)], result_types=[op.results[0].type])
    low.emit(read)
    low.notes.holds[read] = op.operands[0]
    low.scalars[op.results[0]] = read.results[0]


@handler("tt.map_elementwise")
def lower_map(low: FunctionLowering, op: Operation) -> None:
    """Apply a scalar function to `pack` neighbouring elements of each operand at a time."""
    from tileprobe.targets.cpu.schedule.ttir import int_attr

    pack = int_attr(op, "pack", 1)
    shape = shape_of(op.operands[0])
    sources = [low.dense(v) for v in op.operands]
    low.close()
    nest = low.nest((*shape[:-1], shape[-1] // pack))
    start = nest.binary("muli", nest.identity[-1], pack)
    points = [(*nest.identity[:-1], nest.binary("addi", start, p)) for p in range(pack)]
    operands = [nest.read(b, point, of=v) for b, v in zip(sources, op.operands) for point in points]
    types = [element_of(r.type) for r in op.results for _ in range(pack)]
    copy = make("tt.map_elementwise", operands, types, {}, [low.region(op.regions[0])], like=op)
    nest.origin.add(op)
    nest.block.add_op(copy)
    for number, result in enumerate(op.results):
        buffer = low.alloc(shape, element_of(result.type))
        low.buffers[result] = buffer
        for p, point in enumerate(points):
            nest.write(copy.results[number * pack + p], buffer, point, of=result)
    low.close()


def _scalar_copy(op: Operation, operands: list[SSAValue]) -> Operation:
    attributes = {**op.attributes, **op.properties}
    attributes.pop("op_name__", None)
    return make(op_name(op), operands, [element_of(r.type) for r in op.results], attributes, like=op)
