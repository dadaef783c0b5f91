"""What there is to know of one of torch's operators before it is called, read from its schema and tags."""

from __future__ import annotations

from typing import Any

from tileprobe.cuda_map import widened

# Where torch for CUDA demands one device; elsewhere a tensor of the CPU may be among the arguments (indices, sizes).
_ONE_DEVICE = ("mm", "addmm", "bmm", "baddbmm", "cat", "addmv", "dot", "linear", "embedding", "convolution")


class Plan:
    def __init__(self, torch: Any, op: Any) -> None:
        schema = op._schema
        writes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
        self.op = op
        self.written = [n for n, write in enumerate(writes) if write]
        self.names = [a.name for a in schema.arguments]
        self.tensors = [n for n, a in enumerate(schema.arguments) if str(a.type) == "Tensor"]
        self.returns_written = [r.alias_info is not None and r.alias_info.is_write for r in schema.returns]
        self.numbers_as_tensors = False  # found out when one is refused
        self.has_device = "device" in self.names
        self.has_generator = "generator" in self.names
        random = torch.Tag.nondeterministic_seeded in op.tags
        self.draws = random or self.has_generator
        self.reshapes = torch.Tag.inplace_view in op.tags
        data = torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output
        self.dynamic = any(tag in op.tags for tag in data)  # what comes out depends on values
        self.is_out = any(schema.arguments[n].is_out for n in self.written)
        base = schema.name.removeprefix("aten::")
        self.one_device = torch.Tag.pointwise in op.tags or base in _ONE_DEVICE
        self.undefined = base in ("empty", "empty_strided")  # its values are nobody's
        self.widening = widened.of(torch, base)
        # Most operators make one new tensor of others, and need none of the rest.
        self.plain = not (
            self.written or self.has_device or self.draws or self.widening
        ) and self.returns_written == [False]  # fmt: skip
