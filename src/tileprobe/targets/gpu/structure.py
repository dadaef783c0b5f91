"""How the portable passes see Triton's final GPU IR: what costs, what is free, what is issued and awaited.

Ops are known by name. What is asynchronous and which iteration it belongs to is found by `pairing`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileprobe.ir.accessors import attr_value, dialect_type, elem_type, op_name, shape
from tileprobe.ir.structure import Loop, Pair, ScfStructure, Shift
from tileprobe.targets.gpu.pairing import End, Pairs

# Ops that cost, by the word a user has for them.
_KINDS = {
    "tt.load": "load", "tt.store": "store", "tt.dot": "dot", "tt.dot_scaled": "dot", "tt.reduce": "reduce",
    "tt.scan": "scan", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic", "tt.gather": "gather",
    "tt.histogram": "histogram", "tt.call": "call", "tt.descriptor_load": "load",
    "tt.descriptor_store": "store", "tt.descriptor_gather": "load", "tt.descriptor_scatter": "store",
    "ttg.local_load": "shared load", "ttg.local_store": "shared store", "ttg.convert_layout": "convert",
    "ttg.local_gather": "shared load", "ttg.local_scatter": "shared store", "ttg.async_wait": "wait",
    "ttg.barrier": "barrier", "gpu.barrier": "barrier",
    "ttng.warp_group_dot": "dot", "ttng.warp_group_dot_wait": "wait", "ttng.wait_barrier": "wait",
    "ttng.tc_gen5_mma": "dot", "ttng.tc_gen5_mma_scaled": "dot", "ttng.tmem_load": "tensor memory load",
    "ttng.tmem_store": "tensor memory store", "ttng.tmem_copy": "tensor memory copy",
    "ttng.async_tma_copy_local_to_global": "store", "ttng.async_tma_reduce": "store",
    "ttng.async_tma_scatter": "store", "ttng.async_tma_store_wait": "wait",
    "ttng.async_tma_copy_global_to_local": "load", "ttng.async_tma_gather": "load",
    "ttng.cluster_barrier": "barrier", "ttng.arrive_barrier": "arrive", "ttng.tc_gen5_commit": "arrive",
    "amdg.buffer_load": "load", "amdg.buffer_store": "store", "amdg.buffer_atomic_rmw": "atomic",
    "amdg.buffer_atomic_cas": "atomic", "amdg.local_load_packed_tranposed": "shared load",
    "amdg.async_wait": "wait",
}  # fmt: skip
# An allocation that is given a value stores it.
_FILLED = {"ttg.local_alloc": "shared store", "ttng.tmem_alloc": "tensor memory store"}
DOTS = frozenset(
    ["tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"]
)

# Ops that name a place or a token; what they cost is part of the op that uses them.
_FREE = frozenset(
    f"ttg.{name}"
    for name in ("memdesc_index", "memdesc_subslice", "memdesc_trans", "memdesc_reinterpret", "memdesc_reshape",
                 "async_commit_group", "local_dealloc", "global_scratch_alloc", "warp_id")
) | frozenset(
    f"tt.{name}"
    for name in ("splat", "broadcast", "expand_dims", "addptr", "make_range", "get_program_id", "bitcast",
                 "get_num_programs", "reshape", "unsplat", "ptr_to_int", "int_to_ptr")
) | frozenset(["ttng.barrier_expect", "ttng.fence_async_shared", "ttng.reinterpret_tensor_descriptor"])  # fmt: skip


class TtgirStructure(ScfStructure):
    """Final TTGIR, of Triton and of Gluon kernels, for NVIDIA and AMD."""

    def __init__(self) -> None:
        super().__init__()
        self._pairs_of: dict[Operation, Pairs] = {}

    def kinds(self, op: Operation) -> tuple[str, ...]:
        name = op_name(op)
        if name in _FILLED and op.operands:
            return (_FILLED[name],)
        word = _KINDS.get(name)
        if word is None or self.issues(op) or self.waits(op):
            return super().kinds(op) if word is None and attr_value(op, "kinds") else ()
        return (word,)

    def cost(self, op: Operation) -> float | None:
        """Elements that an op touches; a product's multiplications. Waits have no cost that is known before."""
        word = "".join(self.kinds(op))
        if not word or word in ("wait", "barrier", "arrive", "call"):
            return None
        if op_name(op) in DOTS:
            return product(op)
        return float(max((math.prod(extent(v)) for v in (*op.operands, *op.results)), default=1))

    def is_free(self, op: Operation) -> bool:
        """Addresses and masks are computed wherever the compiler likes; arithmetic on numbers is work."""
        name = op_name(op)
        if op.regions:
            return False
        if name in _FREE or (name in _FILLED and not op.operands):
            return True
        if not name.startswith("arith."):
            return False
        return all(_is_integer(value) for value in (*op.operands, *op.results))

    def is_arithmetic(self, op: Operation) -> bool:
        computes = op_name(op).startswith(("arith.", "math.", "tt.extern_elementwise")) and bool(op.operands)
        tensors = any(isinstance(value.type, TensorType) for value in op.results)
        return computes and tensors and not self.is_free(op) and not self.kinds(op)

    def loop(self, op: Operation) -> Loop | None:
        found = super().loop(op)
        return found and replace(found, beyond=self._found(op).beyond.get(op, 0))

    # -- asynchronous operations -----------------------------------------------------------------------------

    def issues(self, op: Operation) -> tuple[Pair, ...]:
        return self._named(self._found(op).issues.get(op, ()))

    def waits(self, op: Operation) -> tuple[Pair, ...]:
        return self._named(self._found(op).waits.get(op, ()))

    def _named(self, ends: tuple[End, ...]) -> tuple[Pair, ...]:
        return tuple(
            Pair(end.key, end.name, Shift(end.ahead, end.peeled), self.lines(end.issue)) for end in ends
        )

    def _found(self, op: Operation) -> Pairs:
        kernel = op
        while (above := kernel.parent_op()) is not None and op_name(above) != "builtin.module":
            kernel = above
        if kernel not in self._pairs_of:
            self._pairs_of[kernel] = Pairs(kernel)
        return self._pairs_of[kernel]


def _is_integer(value: SSAValue) -> bool:
    if not isinstance(value.type, TensorType):
        return True
    return elem_type(value.type)[0] in "ip"


def product(op: Operation) -> float | None:
    """m * n * k: the elements of the result times the width of an operand."""
    sizes = [extent(value) for value in op.operands[:3]]
    if len(sizes) < 2 or len(sizes[0]) < 2 or len(sizes[1]) < 2:
        return None
    return float(math.prod(sizes[0]) * sizes[1][-1])


def extent(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor, or of shared or tensor memory."""
    named = dialect_type(value.type)
    if named is None or named[0] != "ttg.memdesc":
        return shape(value.type)
    return tuple(int(part) for part in named[1].split(",")[0].split("x") if part.isdigit())
