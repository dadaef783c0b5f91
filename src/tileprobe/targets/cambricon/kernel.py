"""One step of a model on a machine, as sessions see it: a kernel whose launch is a simulation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context

from tileprobe.ir.regions import regions_of
from tileprobe.passes import pipeline as passes_of
from tileprobe.plugins import targets
from tileprobe.targets.base import Source, Target, Variant
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import the_step
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model


@dataclass(frozen=True)
class Step:
    model: Model
    device: Machine
    options: Options

    source = Source()

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def machine(self) -> str:
        return (
            self.device.name if self.device.name.startswith("cambricon:") else f"cambricon:{self.device.name}"
        )

    @property
    def target(self) -> Target:
        return targets()["cambricon"]

    @property
    def key(self) -> Any:
        return repr((self.model, self.device, self.options))

    def compile(self, pipeline: str) -> Variant:
        module = compile_step(self.model, self.device, self.options)
        plain = str(module)
        for step in passes_of(pipeline).passes:
            step.apply(Context(), module)
        probed = str(module)
        key = hashlib.sha256(f"{self.key}\n{probed}".encode()).hexdigest()
        return Variant(
            key, module, None, tuple(regions_of(the_step(module))), {"cam": plain, "probe": probed}
        )
