"""Walks a TTIR function and writes it anew as stages of the tile dialect.

Comes in: one `tt.func` and its `Analysis`. Goes out: a `tt.func` over scalars and buffers, whose blocks hold
scalar ops, structured control flow and stages. One nest is open at a time; what fits its domain joins it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileprobe.errors import UnsupportedError
from tileprobe.ir.locations import source_location
from tileprobe.targets.cpu.dialect import AllocOp, BufferType, ViewOp
from tileprobe.targets.cpu.schedule.analysis import Analysis, Form, is_factor
from tileprobe.targets.cpu.schedule.convert import convert
from tileprobe.targets.cpu.schedule.nest import Indices, NestBuilder, same_memory
from tileprobe.targets.cpu.schedule.notes import Notes
from tileprobe.targets.cpu.schedule.places import Places
from tileprobe.targets.cpu.schedule.ttir import (
    attr,
    constant_of,
    element_of,
    int_attr,
    is_clobber,
    is_elementwise,
    is_tensor,
    is_virtual,
    make,
    op_name,
    owner_op,
    shape_of,
)

Handler = Callable[["FunctionLowering", Operation], None]
# op name -> what lowers it; filled by the modules of stages and control flow
HANDLERS: dict[str, Handler] = {}


def handler(*names: str) -> Callable[[Handler], Handler]:
    def register(function: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = function
        return function

    return register


def _home(value: SSAValue) -> Block | None:
    """The block in which a value of the source function is defined."""
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


class FunctionLowering:
    """State of one function: scalars and buffers made so far, the block being filled, the open nest."""

    def __init__(self, function: Operation, analysis: Analysis, kernel: str, places: Places):
        self.function = function
        self.analysis = analysis
        self.kernel = kernel
        self.places = places
        self.scalars: dict[SSAValue, SSAValue] = {}
        self.buffers: dict[SSAValue, SSAValue] = {}  # dense, of the value's own element type
        self.packed: dict[tuple[SSAValue, Form], SSAValue] = {}
        self.preferred: dict[SSAValue, SSAValue] = {}  # value -> the buffer it should best be computed in
        self.blocks: dict[Block, Block] = {}
        self.edges: list[Block] = []  # blocks added between a conditional branch and its targets
        self.return_buffers: list[SSAValue] = []  # where the tiles go that the function returns
        self.block = Block()
        self.entry: Block | None = (
            None  # where buffers live that outlast a block of unstructured control flow
        )
        self.open: NestBuilder | None = None
        self.finished: set[Operation] = set()
        self.notes = Notes()
        self.lazy: dict[SSAValue, None] = {}  # loads that may still be evaluated further down
        self._views: dict[tuple[SSAValue, tuple[int, ...]], SSAValue] = {}

    # -- what stages ask for ---------------------------------------------------------------------------------

    def scalar(self, value: SSAValue) -> SSAValue:
        """The scalar of the new function that stands for `value`."""
        if self.open is not None and value in self.open.pending:
            self.close()
        found = self.scalars.get(value)
        assert found is not None, f"a scalar is used before it is lowered: {value}"
        return found

    def emit(self, op: Operation) -> None:
        self.block.add_op(op)

    def close(self) -> None:
        """Finish the open nest and put it at the end of the block."""
        nest, self.open = self.open, None
        if nest is None:
            return
        op = nest.finish()
        self.block.add_op(op)
        results = iter(op.results)
        for value, number in nest.pending.items():
            if nest.reductions[number][2] is None:
                self.scalars[value] = next(results)

    def nest(self, domain: tuple[int, ...], *, axis: int | None = None) -> NestBuilder:
        """A nest over `domain` to add to: the open one if it fits."""
        current = self.open
        fits = current is not None and current.domain == domain
        if fits and axis is not None and current is not None and current.axis not in (None, axis):
            fits = False
        if not fits:
            self.close()
            self.open = NestBuilder(self, domain)
        assert self.open is not None
        return self.open

    def into_nest(
        self, domain: tuple[int, ...], work: Callable[[NestBuilder], None], *, axis: int | None = None
    ) -> NestBuilder:
        """Add `work` to the open nest; to a fresh one if the open one is still to produce what it needs."""
        nest = self.nest(domain, axis=axis)
        if not nest.attempt(lambda: work(nest)):
            self.close()
            nest = self.nest(domain, axis=axis)
            work(nest)
        return nest

    def alloc(self, shape: tuple[int, ...], element: Attribute, layout: str = "row") -> SSAValue:
        op = AllocOp.create(result_types=[BufferType.of(shape, element, layout)])
        if self.entry is not None:
            self.entry.insert_op_before(
                op, self.entry.first_op
            ) if self.entry.first_op else self.entry.add_op(op)
        else:
            self.block.add_op(op)
        return op.results[0]

    def view(self, buffer: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """`buffer` with another shape. The view stands right behind what it views."""
        key = (buffer, shape)
        if key not in self._views:
            assert isinstance(buffer.type, BufferType)
            op = ViewOp.create(operands=[buffer], result_types=[BufferType.of(shape, buffer.type.element)])
            owner = buffer.owner
            if isinstance(owner, Block):
                first = owner.first_op
                owner.insert_op_before(op, first) if first else owner.add_op(op)
            else:
                assert owner.parent is not None
                owner.parent.insert_op_after(op, owner)
            self._views[key] = op.results[0]
        return self._views[key]

    def region(self, source: Region) -> Region:
        """A copy of a region of scalar ops, for this function."""
        copy = source.clone()
        for op in copy.walk():
            op.operands = [self.scalars.get(v, v) for v in op.operands]
        return copy

    def constant(self, op: Operation, nest: NestBuilder, indices: Indices) -> SSAValue:
        held = constant_of(op)
        kind = element_of(op.results[0].type)
        if not held.splat:
            data = attr(op, "value")
            assert data is not None
            if op.results[0] not in self.buffers:
                table = make("tile.table", [], [BufferType.of(held.shape or (), kind)], {"value": data})
                self.block.add_op(table)
                self.buffers[op.results[0]] = table.results[0]
            return nest.read(self.buffers[op.results[0]], indices, of=op.results[0])
        number = held.scalar()
        data = IntegerAttr(int(number), kind) if isinstance(kind, IntegerType) else FloatAttr(number, kind)  # type: ignore[arg-type]
        return nest.emit(make("arith.constant", [], [kind], {"value": data}, like=op))

    # -- keeping tiles ---------------------------------------------------------------------------------------

    def dense(self, value: SSAValue) -> SSAValue:
        """A dense buffer that holds `value`; made now if there is none."""
        if value not in self.buffers:
            self.keep(value, [Form(element_of(value.type))])
        elif self.open is not None and value in self.open.written:
            self.close()
        return self.buffers[value]

    def keep(self, value: SSAValue, forms: list[Form]) -> None:
        """Evaluate `value` over its shape and write it to a buffer of each form."""
        domain = shape_of(value)
        own = element_of(value.type)

        def work(nest: NestBuilder) -> None:
            nest.value(value)

        nest = self.into_nest(domain, work)
        element = nest.value(value)
        for form in forms:
            place = self._place(value, form, nest)
            nest.write(convert(nest, element, form.element), place, of=value)
            if form == Form(own):
                self.buffers[value] = place
                nest.written[value] = place
            else:
                self.packed[(value, form)] = place

    def fill(self, value: SSAValue, buffer: SSAValue) -> None:
        """Write `value` into a given buffer of its own type."""
        if self.buffers.get(value) is buffer:
            return
        nest = self.into_nest(shape_of(value), lambda nest: (nest.value(value), None)[1])
        nest.write(nest.value(value), buffer, of=value)
        nest.origin.note(owner_op(value))

    def _place(self, value: SSAValue, form: Form, nest: NestBuilder) -> SSAValue:
        if form == Form(element_of(value.type)) and value in self.preferred:
            buffer, by = self.preferred[value], owner_op(value)
            if by is not None and self.free(buffer, by) and not nest.reads_elsewhere(buffer):
                return buffer
        return self.alloc(shape_of(value), form.element, form.layout)

    def settle(self, op: Operation) -> None:
        """Memory may change at `op`: keep every load that is evaluated there or later.

        What `op` itself stores is not evaluated later; regions inside of it are.
        """
        for value in list(self.lazy):
            if value in self.buffers:
                continue
            if self._wanted_after(value, op, set()):
                self.keep(value, [Form(element_of(value.type))])
            elif _home(value) is op.parent:
                del self.lazy[value]

    def _wanted_after(self, value: SSAValue, op: Operation, seen: set[SSAValue]) -> bool:
        """Is the tile `value` to be computed again for an op other than `op` that is not lowered yet?"""
        seen.add(value)
        for use in value.uses:
            user = use.operation
            tiles = [r for r in user.results if is_tensor(r)]
            if tiles and is_virtual(op_name(user)):
                for result in tiles:
                    if result in self.buffers or result in seen:
                        continue
                    if self.analysis.kept(result) and user not in self.finished:
                        return True
                    if self._wanted_after(result, op, seen):
                        return True
            elif user in self.finished or (user is op and not op.regions):
                continue
            elif not (is_factor(use) and any(kept is value for kept, _ in self.packed)):
                return True
        return False

    def free(self, buffer: SSAValue, by: Operation) -> bool:
        """Is every use done of all tiles that lie in `buffer`, but for the op `by` that is to overwrite it?

        Several tiles may have it: a product leaves its result where its accumulator was. What a loop around `by`
        took over when it began is done, too.
        """
        around: set[Operation] = set()
        parent = by.parent_op()
        while parent is not None:
            around.add(parent)
            parent = parent.parent_op()
        tiles = [value for value, place in self.buffers.items() if same_memory(place, buffer)]
        return not any(self.analysis.roots(tile) - self.finished - around - {by} for tile in tiles)

    # -- walking ---------------------------------------------------------------------------------------------

    def lower_block(self, source: Block, target: Block) -> None:
        with self.scope(source, target):
            for op in source.ops:
                if op not in self.finished:
                    if op in self.analysis.clobbering:
                        self.settle(op)
                    self.lower_op(op)
                    self.finished.add(op)
            self.close()

    @contextmanager
    def scope(self, source: Block | None, target: Block) -> Iterator[None]:
        """Emit to `target`. Tiles from outside of `source` that were kept in there are forgotten afterwards.

        Whether the block ever runs is not known outside of it, and its buffers may have been taken by others.
        """
        buffers, packed = set(self.buffers), set(self.packed)
        saved, self.block = self.block, target
        yield
        self.block = saved
        for value in [v for v in self.buffers if v not in buffers and _home(v) is not source]:
            del self.buffers[value]
        for key in [k for k in self.packed if k not in packed and _home(k[0]) is not source]:
            del self.packed[key]

    def lower_op(self, op: Operation) -> None:
        name = op_name(op)
        handle = HANDLERS.get(name)
        if handle is not None:
            handle(self, op)
        elif is_virtual(name) and any(map(is_tensor, op.results)):
            self._lower_virtual(op)
        elif any(map(is_tensor, (*op.operands, *op.results))):
            self.refuse(op, f"the operation {name} is not known to the CPU target")
        else:
            self.lower_scalar(op)

    def lower_scalar(self, op: Operation) -> None:
        """Copy an op on scalars."""
        self.refuse_if_unsupported(op)
        name = op_name(op)
        if name == "tt.load" and self.open is not None and self.open.stores:
            self.close()
        operands = [self.scalar(v) for v in op.operands]
        attributes = {**op.attributes, **op.properties}
        attributes.pop("op_name__", None)
        copy = make(name, operands, [r.type for r in op.results], attributes, like=op)
        self.emit(copy)
        if name == "tt.load" or is_clobber(name):
            self.notes.accesses[copy] = op
        for old, new in zip(op.results, copy.results):
            self.scalars[old] = new
            new.name_hint = old.name_hint

    def _lower_virtual(self, op: Operation) -> None:
        self.refuse_if_unsupported(op)
        for value in op.results:
            if op_name(op) == "tt.load" and not self.analysis.kept_whole(value):
                self.lazy[value] = None
            forms = self.analysis.forms.get(value)
            if forms and value not in self.buffers:
                self.keep(value, forms)
                self.finished.add(op)
                self.forward(value)

    def forward(self, value: SSAValue, seen: set[Operation] | None = None) -> None:
        """Let users of a tile that just was computed join its nest while it is at hand in registers."""
        from tileprobe.targets.cpu.schedule.reductions import simple_reduction

        owner = owner_op(value)
        if owner is None:
            return
        seen = set() if seen is None else seen
        for use in list(value.uses):
            user = use.operation
            if user in seen or user in self.finished or user.parent is not owner.parent:
                continue
            seen.add(user)
            if not self._at_hand(user):
                continue
            name = op_name(user)
            if name == "tt.reduce" and simple_reduction(user) is not None:
                if self.open is not None and self.open.axis in (None, int_attr(user, "axis")):
                    HANDLERS[name](self, user)
                    self.finished.add(user)
            elif is_elementwise(name) and shape_of(user.results[0]) == shape_of(value):
                if self.analysis.kept(user.results[0]):
                    self._lower_virtual(user)
                else:
                    self.forward(user.results[0], seen)

    def _at_hand(self, op: Operation) -> bool:
        """Can `op` be evaluated now, before its turn?"""
        known: dict[SSAValue, bool] = {}
        return all(self._known(v, known) for v in op.operands)

    def _known(self, value: SSAValue, known: dict[SSAValue, bool]) -> bool:
        """Can `value` be evaluated now? `known` holds what was found on the way: expressions share parts."""
        if value not in known:
            known[value] = self._find_known(value, known)
        return known[value]

    def _find_known(self, value: SSAValue, known: dict[SSAValue, bool]) -> bool:
        if value in self.buffers or value in self.scalars:
            return self.open is None or value not in self.open.pending
        op = owner_op(value)
        if op is None or not is_tensor(value) or not is_virtual(op_name(op)):
            return False
        if op_name(op) == "tt.load" or self.analysis.kept(value):
            return False  # loads keep their place among the stores
        return all(self._known(v, known) for v in op.operands)

    # -- refusing --------------------------------------------------------------------------------------------

    def refuse(self, op: Operation, why: str) -> None:
        place = source_location(op)
        where = f"{place.file}:{place.line}" if place else "unknown line"
        raise UnsupportedError(f"kernel {self.kernel!r}, {where}: {why}")

    def refuse_if_unsupported(self, op: Operation) -> None:
        name = op_name(op)
        if name == "tt.elementwise_inline_asm":
            self.refuse(op, "inline assembly is written for a GPU and cannot run on the CPU target")
