"""The types of the `record` dialect, and what its ops have in common."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """The block of words that a program records into."""

    name = "record.buffer"


@irdl_attr_definition
class SlotType(ParametrizedAttribute, TypeAttribute):
    """The place of one record in a block; none when the record is sampled away."""

    name = "record.slot"


BUFFER, SLOT = BufferType(), SlotType()
EFFECTS = (MemoryReadEffect(), MemoryWriteEffect())


def check_place(name: str, indices: Sequence[SSAValue], strides: ArrayAttr[IntAttr]) -> None:
    if len(indices) != len(strides):
        raise VerifyException(f"{name}: {len(indices)} indices and {len(strides)} strides")
