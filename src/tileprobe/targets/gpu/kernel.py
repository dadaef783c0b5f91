"""A kernel that Triton compiled for a GPU, as sessions see it: where it comes from, and the same with probes.

In comes Triton's `CompiledKernel`; `compile` makes one with records from its final TTGIR, checked against its machine
code: what was lost, what was moved out of its region, what takes more registers is said in notes.
"""

from __future__ import annotations

import re
from collections import namedtuple
from dataclasses import replace
from functools import cached_property
from typing import Any

from tileprobe.targets.base import Target, Variant
from tileprobe.targets.gpu.arguments import told
from tileprobe.targets.specialised import signature_of, source_of

_COPIES = re.compile(r" copies=\d+")


class GpuKernel:
    def __init__(self, compiled: Any, target: Any) -> None:
        self.compiled = compiled
        self.target: Target = target
        function = getattr(compiled.src, "fn", None)
        self.name: str = getattr(function, "__name__", None) or compiled.name
        self.machine: str = target.called(compiled)
        self.source = source_of(function)
        self._steps: dict[str, int] = {}  # by pipeline: how far its probes had to be thinned
        signature = compiled.src.signature
        names = list(getattr(function, "arg_names", None) or map(str, signature))
        self.places = told(names, list(signature.values()))
        self.arguments = tuple((name, kind) for _, name, kind in self.places)

    @cached_property
    def signature(self) -> str:
        return signature_of(self.compiled.src, self.compiled.metadata.num_warps)

    @property
    def key(self) -> Any:
        return self.compiled.hash

    @property
    def weighed(self) -> bool:
        """Whether records take time, so that a default plan has to be light."""
        return True

    def compile(self, pipeline: str) -> Variant:
        from tileprobe.targets.gpu.evidence import moved_regions, remarks
        from tileprobe.targets.gpu.thinned import with_bearable_probes

        once = _COPIES.sub("", pipeline)  # each dose has the probes of the others
        made, step, said = with_bearable_probes(
            self.compiled, pipeline, self._steps.get(once), weighed=self.weighed
        )
        self._steps[once] = step
        if made is None:
            return Variant(self.compiled.hash, None)
        launchable(made.kernel, self.compiled)
        notes = (*made.notes, *said, *remarks(made))
        levels = {"ttir": self.compiled.asm.get("ttir", ""), "ttgir": self.compiled.asm["ttgir"], **made.ir}
        for level in ("ptx", "amdgcn"):
            if level in made.kernel.asm:
                levels[level] = made.kernel.asm[level]
        moved = moved_regions(made)
        regions = tuple(replace(region, moved=moved.get(region.id, 0.0)) for region in made.regions)
        return Variant(made.kernel.hash, made, made.layout, regions, levels, notes)


def launchable(kernel: Any, plain: Any) -> None:
    """Arguments are bound as for the plain kernel: what was compiled from IR knows neither constants nor
    descriptors."""
    kernel.src = plain.src
    held = kernel.metadata._asdict() | {"tensordesc_meta": getattr(plain.metadata, "tensordesc_meta", None)}
    kernel.metadata = namedtuple("KernelMetadata", held)(**held)
