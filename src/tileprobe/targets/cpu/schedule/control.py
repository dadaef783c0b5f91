"""Control flow: loops, conditionals, branches and calls. Scalars stay values; carried tiles live in buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileprobe.targets.cpu.dialect import BufferType
from tileprobe.targets.cpu.schedule.lower import FunctionLowering, handler
from tileprobe.targets.cpu.schedule.notes import Carried, Merged
from tileprobe.targets.cpu.schedule.ttir import (
    element_of,
    is_elementwise,
    is_tensor,
    make,
    op_name,
    owner_op,
    shape_of,
)


@handler("scf.for")
def lower_for(low: FunctionLowering, op: Operation) -> None:
    source = op.regions[0].block
    last = source.last_op
    assert last is not None
    buffers = [_carried(low, op, init) for init in op.operands[3:]]
    low.close()
    body = Block(arg_types=[source.args[0].type, *(v.type for v in op.operands[3:] if not is_tensor(v))])
    _bind(low, source.args[0], body.args[0])
    scalars = iter(body.args[1:])
    for arg, buffer in zip(source.args[1:], buffers):
        if buffer is None:
            _bind(low, arg, next(scalars))
        else:
            low.buffers[arg] = buffer
    outer, low.preferred = low.preferred, {}
    for value, arg, buffer in zip(last.operands, source.args[1:], buffers):
        if buffer is not None:
            _prefer(low, value, arg, buffer)
    operands = [low.scalar(v) for v in op.operands[:3]]
    operands += [low.scalar(v) for v in op.operands[3:] if not is_tensor(v)]
    low.lower_block(source, body)
    low.preferred = outer  # a place that is good in the body means nothing behind the loop
    types = [r.type for r in op.results if not is_tensor(r)]
    loop = make("scf.for", operands, types, _attributes(op), [Region(body)], like=op)
    low.emit(loop)
    low.notes.originals[loop] = op
    low.notes.loops[loop] = [
        Carried(buffer, first, arg, value, result)
        for buffer, first, arg, value, result in zip(
            buffers, op.operands[3:], source.args[1:], last.operands, op.results
        )
        if buffer is not None
    ]
    _bind_results(low, op, loop, buffers)


def _carried(low: FunctionLowering, op: Operation, init: SSAValue) -> SSAValue | None:
    """The buffer of a carried tile, filled with its first value; None for a scalar."""
    if not is_tensor(init):
        return None
    own = low.buffers.get(init)
    owner = owner_op(init)
    if own is not None and owner is not None and owner.parent is op.parent:
        if list(op.operands).count(init) == 1 and low.free(own, op):
            return own
    buffer = low.alloc(shape_of(init), element_of(init.type))
    low.fill(init, buffer)
    return buffer


def _prefer(low: FunctionLowering, value: SSAValue, arg: SSAValue, buffer: SSAValue) -> None:
    """Compute `value` right in the buffer of the argument it becomes, where that is safe.

    Only what the body itself computes: a value from outside must be there in the next iteration, too, and behind
    a loop that never ran.
    """
    for _ in range(8):
        owner = owner_op(value)
        if owner is None or owner.parent is not arg.owner:
            return
        low.preferred[value] = buffer
        if op_name(owner) not in ("tt.dot", "tt.dot_scaled"):
            return
        value = owner.operands[2]  # the accumulator


@handler("scf.yield")
def lower_yield(low: FunctionLowering, op: Operation) -> None:
    parent = op.parent_op()
    assert parent is not None
    if op_name(parent) == "scf.for":
        assert op.parent is not None
        targets = [low.buffers.get(arg) for arg in op.parent.args[1:]]
    elif op_name(parent) == "scf.while":
        targets = [low.buffers.get(arg) for arg in parent.regions[0].block.args]
    else:
        targets = [low.buffers.get(result) for result in parent.results]
    assign(low, list(op.operands), targets)
    low.emit(make("scf.yield", [low.scalar(v) for v in op.operands if not is_tensor(v)], [], like=op))


def assign(low: FunctionLowering, values: list[SSAValue], targets: list[SSAValue | None]) -> None:
    """Copy tiles into their target buffers, as if all at once."""
    pairs = [(v, t) for v, t in zip(values, targets) if is_tensor(v) and t is not None]
    pairs = [(v, t) for v, t in pairs if low.buffers.get(v) is not t]
    overwritten = [t for _, t in pairs]
    direct, later = [], []
    for value, target in pairs:
        in_the_way = _reads_overwritten(low, value, target, overwritten)
        (later if in_the_way else direct).append((value, target))
    # What reads a buffer that is overwritten here is computed before that happens.
    held = [
        (low.dense(value) if low.buffers.get(value) not in overwritten else _copy(low, value), target, value)
        for value, target in later
    ]
    low.close()
    for value, target in direct:
        low.fill(value, target)
    low.close()
    for buffer, target, value in held:
        nest = low.nest(shape_of(value))
        nest.write(nest.read(buffer, nest.identity, of=value), target, of=value)
    low.close()


def _copy(low: FunctionLowering, value: SSAValue) -> SSAValue:
    place = low.alloc(shape_of(value), element_of(value.type))
    low.fill(value, place)
    return place


def _reads_overwritten(
    low: FunctionLowering, value: SSAValue, target: SSAValue, overwritten: list[SSAValue]
) -> bool:
    """Does the expression of `value` read a buffer that is overwritten, but for its own target at its own point?"""
    seen: set[tuple[SSAValue, bool]] = set()
    todo = [(value, True)]
    while todo:
        item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        part, in_place = item
        own = low.buffers.get(part)
        if own is not None:
            if own in overwritten and not (in_place and own is target):
                return True
            continue
        owner = owner_op(part)
        if owner is not None:
            in_place = in_place and is_elementwise(op_name(owner))
            todo.extend((v, in_place) for v in owner.operands if is_tensor(v))
    return False


@handler("scf.if")
def lower_if(low: FunctionLowering, op: Operation) -> None:
    low.close()
    condition = low.scalar(op.operands[0])
    buffers = [low.alloc(shape_of(r), element_of(r.type)) if is_tensor(r) else None for r in op.results]
    for result, buffer in zip(op.results, buffers):
        if buffer is not None:
            low.buffers[result] = buffer
    regions = []
    for region in op.regions:
        if not region.blocks:
            regions.append(Region())
            continue
        block = Block()
        low.lower_block(region.block, block)
        regions.append(Region(block))
        last = region.block.last_op
        assert last is not None
        low.notes.merges[block] = _merged(buffers, last.operands, op.results)
    types = [r.type for r in op.results if not is_tensor(r)]
    branch = make("scf.if", [condition], types, _attributes(op), regions, like=op)
    low.emit(branch)
    _bind_results(low, op, branch, buffers)


@handler("scf.while")
def lower_while(low: FunctionLowering, op: Operation) -> None:
    before, after = op.regions[0].block, op.regions[1].block
    carried = [_fresh(low, init) for init in op.operands]
    passed = [low.alloc(shape_of(r), element_of(r.type)) if is_tensor(r) else None for r in op.results]
    low.close()
    for args, buffers in ((before.args, carried), (after.args, passed), (op.results, passed)):
        for arg, buffer in zip(args, buffers):
            if buffer is not None:
                low.buffers[arg] = buffer
    operands = [low.scalar(v) for v in op.operands if not is_tensor(v)]
    regions = []
    for source in (before, after):
        block = Block(arg_types=[a.type for a in source.args if not is_tensor(a)])
        for old, new in zip([a for a in source.args if not is_tensor(a)], block.args):
            _bind(low, old, new)
        low.lower_block(source, block)
        regions.append(Region(block))
    types = [r.type for r in op.results if not is_tensor(r)]
    loop = make("scf.while", operands, types, _attributes(op), regions, like=op)
    low.emit(loop)
    low.notes.originals[loop] = op
    condition, last = before.last_op, after.last_op
    assert condition is not None and last is not None
    low.notes.loops[loop] = [
        Carried(buffer, first, arg, value, None)
        for buffer, first, arg, value in zip(carried, op.operands, before.args, last.operands)
        if buffer is not None
    ]
    low.notes.merges[regions[0].block] = _merged(passed, condition.operands[1:], op.results)
    low.notes.merges[regions[1].block] = _merged(passed, after.args, after.args)
    _bind_results(low, op, loop, passed)


def _fresh(low: FunctionLowering, init: SSAValue) -> SSAValue | None:
    if not is_tensor(init):
        return None
    buffer = low.alloc(shape_of(init), element_of(init.type))
    low.fill(init, buffer)
    return buffer


@handler("scf.condition")
def lower_condition(low: FunctionLowering, op: Operation) -> None:
    parent = op.parent_op()
    assert parent is not None
    targets = [low.buffers.get(r) for r in parent.results]
    assign(low, list(op.operands[1:]), targets)
    operands = [low.scalar(v) for v in op.operands if not is_tensor(v)]
    low.emit(make("scf.condition", operands, [], like=op))


@handler("cf.br")
def lower_branch(low: FunctionLowering, op: Operation) -> None:
    _jump(low, op, op.successors[0], list(op.operands))


def _jump(low: FunctionLowering, op: Operation, target: Block, values: list[SSAValue]) -> None:
    """Tiles passed to a block are copied to its buffers before the jump."""
    buffers = [low.buffers.get(arg) for arg in target.args]
    assign(low, values, buffers)
    low.close()
    low.notes.merges[low.block] = _merged(buffers, values, target.args)
    branch = make("cf.br", [low.scalar(v) for v in values if not is_tensor(v)], [], like=op)
    branch.successors = [low.blocks[target]]
    low.emit(branch)


@handler("cf.cond_br")
def lower_conditional_branch(low: FunctionLowering, op: Operation) -> None:
    """Each way out gets a block of its own for its copies: both may lead to the same place."""
    condition = low.scalar(op.operands[0])
    low.close()
    edges = [Block(), Block()]
    branch = make("cf.cond_br", [condition], [], like=op)
    branch.successors = edges
    low.emit(branch)
    rest, first = list(op.operands[1:]), len(op.successors[0].args)
    for edge, target, values in zip(edges, op.successors, (rest[:first], rest[first:])):
        with low.scope(None, edge):
            _jump(low, op, target, values)
    low.edges.extend(edges)


@handler("tt.call")
def lower_call(low: FunctionLowering, op: Operation) -> None:
    """Tiles go to a function, and come back from it, in buffers."""
    operands: list[SSAValue] = [low.dense(v) if is_tensor(v) else v for v in op.operands]
    low.close()
    operands = [v if isinstance(v.type, BufferType) else low.scalar(v) for v in operands]
    for result in op.results:
        if is_tensor(result):
            low.buffers[result] = low.alloc(shape_of(result), element_of(result.type))
            operands.append(low.buffers[result])
    types = [r.type for r in op.results if not is_tensor(r)]
    call = make("tt.call", operands, types, {"callee": _attributes(op)["callee"]}, like=op)
    low.emit(call)
    low.notes.accesses[call] = op
    low.notes.stages[call] = [v for v in (*op.operands, *op.results) if is_tensor(v)]
    _bind_results(low, op, call, [low.buffers.get(r) for r in op.results])


@handler("tt.return", "func.return")
def lower_return(low: FunctionLowering, op: Operation) -> None:
    tiles = [v for v in op.operands if is_tensor(v)]
    assign(low, tiles, list(low.return_buffers))
    low.close()
    done = make("tt.return", [low.scalar(v) for v in op.operands if not is_tensor(v)], [], like=op)
    low.emit(done)
    low.notes.merges[low.block] = _merged(low.return_buffers, tiles, tiles)


def _merged(
    buffers: Sequence[SSAValue | None], given: Sequence[SSAValue], becomes: Sequence[SSAValue]
) -> list[Merged]:
    return [Merged(b, v, name) for b, v, name in zip(buffers, given, becomes) if b is not None]


def _bind(low: FunctionLowering, old: SSAValue, new: SSAValue) -> None:
    low.scalars[old] = new
    new.name_hint = old.name_hint


def _bind_results(
    low: FunctionLowering, old: Operation, new: Operation, buffers: list[SSAValue | None]
) -> None:
    scalars = iter(new.results)
    for result, buffer in zip(old.results, buffers):
        if buffer is None:
            _bind(low, result, next(scalars))
        else:
            low.buffers[result] = buffer


def _attributes(op: Operation) -> dict[str, Attribute]:
    merged = {**op.attributes, **op.properties}
    merged.pop("op_name__", None)
    return merged
