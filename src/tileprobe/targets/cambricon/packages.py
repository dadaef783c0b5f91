"""Several packages that share a model: how it is split, and what fits.

Split `tensor`, every package has a part of each matrix and all run alike (`cam-shard`). Split `pipeline`, every package
has some of the layers (`cam-stage`), and a token takes them one after the other. What comes of it is in
`package_results.py`.
"""

from __future__ import annotations

from itertools import pairwise

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.dialect import ExchangeOp, StepOp
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model

TENSOR, PIPELINE = "tensor", "pipeline"
SPLITS = (TENSOR, PIPELINE)


def check_packages(model: Model, packages: int, split: str, kv: str, age: str) -> None:
    if split not in SPLITS:
        raise TileProbeError(f"--split is {' or '.join(SPLITS)}, not {split!r}")
    if packages < 1:
        raise TileProbeError(f"--packages must be at least 1, found {packages}")
    if packages == 1:
        return
    if split == PIPELINE and packages > model.layers:
        raise TileProbeError(f"{model.name} has {model.layers} layers, fewer than {packages} packages")
    if kv != "dram":
        raise TileProbeError("several packages keep keys and values in their DRAM: no --kv spill or flash")
    if age and split == PIPELINE:
        raise TileProbeError("a flash that ages is modelled for one package, or for --split tensor")


def packages_of(step: StepOp) -> int:
    """How many packages run a step alike: those that its exchanges are between."""
    found = sorted({op.packages.data for op in step.walk() if isinstance(op, ExchangeOp)})
    if len(found) > 1:
        raise TileProbeError(
            f"{step.sym_name.data}: exchanges between {' and '.join(map(str, found))} packages; all that share a step "
            "exchange, so the number has to be one"
        )
    return found[0] if found else 1


def stages_of(layers: int, packages: int) -> list[tuple[int, int]]:
    """The layers of each package, as evenly as they go."""
    ends = [layers * n // packages for n in range(packages + 1)]
    return list(pairwise(ends))


def dram_for_cache(machine: Machine, layers: int, packages: int, split: str) -> int:
    """How large a cache the packages hold together: the fullest of them decides."""
    if split == TENSOR or packages == 1:
        return machine.dram.capacity_bytes * packages
    fullest = max(end - first for first, end in stages_of(layers, packages))
    return machine.dram.capacity_bytes * layers // fullest
