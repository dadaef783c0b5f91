"""Which tiles of a TTIR function are kept in buffers, in which form, and which are computed again at each use.

Comes in: a function of TTIR. Goes out: an `Analysis` that the lowering asks. A value is kept when computing it
again would be wrong (memory may have changed), would cost (expensive and used by several stages, or in a deeper
loop), or is impossible (the result of a stage).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue, Use

from tileprobe.targets.cpu.schedule.ttir import (
    bool_attr,
    element_of,
    is_clobber,
    is_heavy,
    is_tensor,
    is_virtual,
    numel,
    op_name,
    owner_op,
    shape_of,
)

# Tiles whose expression has more ops than this are kept if several stages use them.
_LONG_EXPRESSION = 24
_LOOPS = ("scf.for", "scf.while")


@dataclass(frozen=True)
class Form:
    """A way to keep a tile: element type and layout of its buffer."""

    element: Attribute
    layout: str = "row"


class Analysis:
    """Facts about one function. `forms` says in which forms a value is to be kept where it is defined."""

    def __init__(self, function: Operation, dot_forms: dict[SSAValue, list[Form]]):
        self.position: dict[Operation, int] = {}
        self.end: dict[Operation, int] = {}
        self._clobbers: list[int] = []
        self.clobbering: set[Operation] = set()  # ops that change memory, or in which memory changes
        self.forms: dict[SSAValue, list[Form]] = defaultdict(list)
        for value, forms in dot_forms.items():
            self.forms[value].extend(forms)
        # tiles of which every product reads a copy of its own
        self._copied = {v for v, forms in dot_forms.items() if Form(element_of(v.type)) not in forms}
        self._roots: dict[SSAValue, frozenset[Operation]] = {}
        self._costs: dict[SSAValue, int] = {}
        self._touches: dict[SSAValue, bool] = {}
        ops = self._number(function)
        for op in reversed(ops):
            self._decide(op)

    def keep(self, value: SSAValue) -> None:
        form = Form(element_of(value.type))
        if form not in self.forms[value]:
            self.forms[value].append(form)

    def kept(self, value: SSAValue) -> bool:
        return bool(self.forms.get(value))

    def kept_whole(self, value: SSAValue) -> bool:
        """Is `value` kept in its own form, so that nobody has to compute it again?

        A tile kept only in the form a product reads is computed again by every other user.
        """
        return Form(element_of(value.type)) in self.forms.get(value, ())

    def roots(self, value: SSAValue) -> frozenset[Operation]:
        """The ops at which `value` is evaluated: stages, and ops whose result is kept."""
        known = self._roots.get(value)
        if known is not None:
            return known
        found: set[Operation] = set()
        for use in value.uses:
            user = use.operation
            if value in self._copied and is_factor(use):
                continue
            if not is_virtual(op_name(user)) or not any(map(is_tensor, user.results)):
                found.add(user)
                continue
            for result in user.results:
                if self.kept(result):
                    found.add(user)
                if not self.kept_whole(result):
                    found |= self.roots(result)
        self._roots[value] = frozenset(found)
        return self._roots[value]

    def touches_memory(self, value: SSAValue) -> bool:
        """Does the expression of `value` hold a load or an expensive op?"""
        known = self._touches.get(value)
        if known is None:
            op = owner_op(value)
            if op is None or not is_virtual(op_name(op)):
                known = False
            else:
                name = op_name(op)
                known = name == "tt.load" or is_heavy(name)
                known = known or any(self.touches_memory(v) for v in op.operands if is_tensor(v))
            self._touches[value] = known
        return known

    def _number(self, function: Operation) -> list[Operation]:
        ops: list[Operation] = []

        def visit(op: Operation) -> None:
            self.position[op] = len(ops)
            ops.append(op)
            if is_clobber(op_name(op)):
                self._clobbers.append(self.position[op])
                self.clobbering.add(op)
            for region in op.regions:
                for block in region.blocks:
                    for inner in block.ops:
                        visit(inner)
                        if inner in self.clobbering:
                            self.clobbering.add(op)
            self.end[op] = len(ops)

        visit(function)
        blocks = function.regions[0].blocks
        if len(blocks) > 1 and self._clobbers:
            # Which way control takes between blocks is not followed: memory may be another one in the next.
            self.clobbering.update(b.last_op for b in blocks if b.last_op is not None)
        return ops

    def _decide(self, op: Operation) -> None:
        name = op_name(op)
        if name == "tt.gather" or (name == "tt.reshape" and self._reshapes_much(op)):
            self.keep(op.operands[0])
        elif name in ("scf.yield", "scf.condition"):
            for value in op.operands:
                if (is_tensor(value) and self.touches_memory(value)) or (
                    is_tensor(value) and owner_op(value) is not None and self._cost(value) > 2
                ):
                    self.keep(value)
        if not is_virtual(name) or name == "arith.constant":
            return
        for value in op.results:
            if is_tensor(value) and not self.kept(value) and self._worth_keeping(op, name, value):
                self.keep(value)

    def _reshapes_much(self, op: Operation) -> bool:
        """Would the expression behind a reshape be computed anew, at indices found by division?

        A chain of reshapes of long expressions would double at each step: no two of its indices are alike.
        """
        source = op.operands[0]
        much = self.touches_memory(source) or self._cost(source) > _LONG_EXPRESSION
        return much and not only_unit_dims(op)

    def _worth_keeping(self, op: Operation, name: str, value: SSAValue) -> bool:
        roots = self.roots(value)
        if not roots:
            return False
        if name == "tt.load":
            return self._load_worth_keeping(op, roots)
        long = self._cost(value) > _LONG_EXPRESSION
        if not (is_heavy(name) or long):
            return False
        grows = any(self._domain(root) > numel(shape_of(value)) for root in roots)
        return len(roots) > 1 or grows or any(self._deeper(op, root) for root in roots)

    def _load_worth_keeping(self, op: Operation, roots: frozenset[Operation]) -> bool:
        if bool_attr(op, "isVolatile"):
            return True
        if any(self._deeper(op, root) or self._clobbered(op, root) for root in roots):
            return True
        gathered = self.touches_memory(op.operands[0])
        return len(roots) > (1 if gathered else 3)

    def _domain(self, root: Operation) -> int:
        return max((numel(shape_of(v)) for v in (*root.operands, *root.results) if is_tensor(v)), default=1)

    def _ancestor(self, op: Operation, block: Block | None) -> Operation | None:
        """The op of `block` that is or holds `op`."""
        while op.parent is not block:
            parent = op.parent_op()
            if parent is None:
                return None
            op = parent
        return op

    def _deeper(self, op: Operation, root: Operation) -> bool:
        """Is `root` in a loop that `op` is not in?"""
        while root.parent is not op.parent:
            parent = root.parent_op()
            if parent is None:
                return False
            if op_name(parent) in _LOOPS:
                return True
            root = parent
        return False

    def _clobbered(self, op: Operation, root: Operation) -> bool:
        around = self._ancestor(root, op.parent)
        if around is None:  # another block of unstructured control flow, which only runs forwards
            stop = self.position[root]
        else:
            stop = self.position[root] if around is root else self.end[around]
        return any(self.position[op] < c < stop for c in self._clobbers)

    def _cost(self, value: SSAValue) -> int:
        known = self._costs.get(value)
        if known is None:
            op = owner_op(value)
            known = 0
            if op is not None and is_virtual(op_name(op)) and is_tensor(value):
                known = min(1 + sum(self._cost(v) for v in op.operands), 1 << 20)
            self._costs[value] = known
        return known


def is_factor(use: Use) -> bool:
    """Is a tile used as a factor of a product, which has a form of its own for it?"""
    return op_name(use.operation) == "tt.dot" and use.index < 2


def only_unit_dims(reshape: Operation) -> bool:
    """Does a reshape only add or drop dimensions of extent 1?"""
    strip = [tuple(d for d in shape_of(v) if d != 1) for v in (reshape.operands[0], reshape.results[0])]
    return strip[0] == strip[1]
