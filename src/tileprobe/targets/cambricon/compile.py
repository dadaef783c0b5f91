"""The pipeline: options of a run in, mapped IR out. `stages` names the passes, so that `tileprobe opt` can
print each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.build import build_step
from tileprobe.targets.cambricon.kv_cache import CachePlan, plan_cache
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.packages import (
    PIPELINE,
    TENSOR,
    check_packages,
    dram_for_cache,
    stages_of,
)
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, geometry_of
from tileprobe.targets.cambricon.passes.cam_double_buffer import CamDoubleBufferPass
from tileprobe.targets.cambricon.passes.cam_map_pages import CamMapPagesPass
from tileprobe.targets.cambricon.passes.cam_shard import CamShardPass
from tileprobe.targets.cambricon.passes.cam_slice import CamSlicePass
from tileprobe.targets.cambricon.passes.cam_split import CamSplitPass
from tileprobe.targets.cambricon.passes.cam_stage import CamStagePass
from tileprobe.targets.cambricon.passes.cam_tile import CamTilePass
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.routing import UNIFORM, Routing, expert_bytes, route
from tileprobe.targets.cambricon.tiling import MOST_INPUT_SLOTS


@dataclass(frozen=True)
class Options:
    """How a model is to run. `mode` is split, flash-only or npu-only; `tile` is a shape such as
    "256x2048".
    """

    context: int = 1000
    weights: str = "w8a8"
    tiling: str = "paper"
    tile: str = ""
    mode: str = SPLIT
    slicing: bool = True
    lm_head: bool = False
    prefill: bool = False
    batch: int = 1  # sequences that are decoded together
    verify: int = 1  # tokens of each that one pass verifies; 1: plain decoding
    acceptance: float = 0.8  # of a drafted token
    prefill_split: bool = False  # the flash computes in a prefill, too
    kv: str = "dram"  # where keys and values lie, see kv_cache.py
    packages: int = 1  # that share the model, see packages.py
    split: str = TENSOR
    age: str = ""  # of the flash, see aging.py; one that never ages when not given
    routing: str = UNIFORM  # of a mixture's tokens, see routing.py
    seed: int = 0
    expert_cache_gb: float = 0.0  # of the DRAM, for experts
    # readings of the paper's text about the split, to be compared with what would be else
    striped: bool = True  # the NPU's share over all channels, not over those of its columns
    counted: bool = True  # the balance of real requests and pages, not the formula rounded up
    edges: bool = False  # the NPU's share first from columns that do not fill a request


def stages(options: Options) -> list:
    """The passes from a step to commands, in their order."""
    best = options.tiling == "best"
    buffers = CamDoubleBufferPass(inputs=MOST_INPUT_SLOTS, keep=True) if best else CamDoubleBufferPass()
    passes: list[ModulePass] = [
        CamTilePass(rule=options.tiling, tile=options.tile),
        CamSplitPass(
            rule="best" if best else "paper" if options.counted else "alpha",
            edges=options.edges,
            striped=options.striped,
        ),
        buffers,
        CamMapPagesPass(striped=options.striped),
    ]
    if options.packages > 1 and options.split == TENSOR:
        passes = [CamShardPass(options.packages), *passes]
    return [*passes, CamSlicePass()] if options.slicing else passes


def build(model: Model, machine: Machine, options: Options) -> ModuleOp:
    """The module of one step before any pass."""
    if not (options.expert_cache_gb >= 0.0 and math.isfinite(options.expert_cache_gb)):
        raise TileProbeError(f"--expert-cache must be zero or more GB, found {options.expert_cache_gb:g}")
    check_packages(model, options.packages, options.split, options.kv, options.age)
    check_cache(model, machine, options)
    if min(options.batch, options.verify) < 1 or not 0.0 <= options.acceptance <= 1.0:
        raise TileProbeError("batch and verified tokens are 1 or more, acceptance lies between 0 and 1")
    if options.prefill and options.verify > 1:
        raise TileProbeError("a prefill takes all tokens of a prompt in one pass: no --verify with --prefill")
    if options.prefill_split and not options.prefill:
        raise TileProbeError("--prefill-split says who computes a prefill: give --prefill, too")
    if options.mode == FLASH_ONLY and mode_of(options) != FLASH_ONLY:
        raise TileProbeError("the NPU computes a prefill: --flash-only needs --prefill-split, too")
    if options.batch * options.verify > 1 and model.experts:
        raise TileProbeError(f"{model.name}: a mixture of experts is decoded one token at a time here")
    if options.batch > 1 and (options.prefill or options.kv != "dram"):
        raise TileProbeError(
            "a batch is decoded, with keys and values in DRAM; no --prefill and no --kv spill"
        )
    precision = precision_of(options.weights)
    routes, plan = routing_of(model, options), cache_of(model, machine, options)
    return build_step(
        model, machine, precision, options.context, mode_of(options), options.lm_head, options.prefill,
        routes.routes if routes else None, plan.in_flash, options.batch, options.verify,
    )  # fmt: skip


def mode_of(options: Options) -> str:
    """Who computes: a prefill is the NPU's, unless it was said that the flash has a share."""
    return NPU_ONLY if options.prefill and not options.prefill_split else options.mode


def cache_of(model: Model, machine: Machine, options: Options) -> CachePlan:
    kv_bytes, experts = precision_of(options.weights).kv_bytes, int(options.expert_cache_gb * 1e9)
    plan = plan_cache(model, machine, options.context, kv_bytes, options.kv, experts)
    if plan.spilled and options.prefill:
        raise TileProbeError(
            "a prefill whose keys and values go beyond the DRAM is not modelled; use a shorter prompt"
        )
    if plan.spilled and options.mode == FLASH_ONLY:
        raise TileProbeError(
            "flash-only leaves no plane that serves reads, which keys and values in flash need"
        )
    return plan


def routing_of(model: Model, options: Options) -> Routing | None:
    """What the step meets of a mixture's experts; None where there are none."""
    if not model.experts:
        if options.expert_cache_gb:
            raise TileProbeError(f"{model.name} has no experts to cache")
        if options.routing != UNIFORM:
            raise TileProbeError(f"{model.name} has no experts that tokens are routed to: no --routing")
        if options.seed:
            raise TileProbeError(f"{model.name} has no experts that tokens are routed to: no --seed")
        return None
    each = expert_bytes(model, precision_of(options.weights).weight_bits)
    cached = int(options.expert_cache_gb * 1e9) // each
    return route(
        model, options.routing, options.seed, cached, max(options.context, 1) if options.prefill else 1
    )


def compile_step(model: Model, machine: Machine, options: Options, package: int | None = None) -> ModuleOp:
    """The mapped module of one step; in a pipeline, of one package of it. The best tiling is found for one group of
    products at a time, and reading ahead joins them: so the paper's is taken where the whole step is faster with it.
    Cores that help with a prompt take planes and wide tiles from its reads: the NPU alone where that is faster.
    """
    if options.prefill_split and options.mode == NPU_ONLY:
        raise TileProbeError("--prefill-split gives the flash a share, --npu-only none: give one of the two")
    tilings = ("best", "paper") if options.tiling == "best" else (options.tiling,)
    shared = options.prefill_split and options.mode == SPLIT
    tried = [
        _compiled(model, machine, replace(options, tiling=tiling, mode=mode), package)
        for tiling in tilings
        for mode in ((SPLIT, NPU_ONLY) if shared else (options.mode,))
    ]
    return tried[0] if len(tried) == 1 else min(tried, key=lambda module: _step_us(module, machine))


def as_compiled(options: Options, mode: str) -> Options:
    """What runs, where the module that came of these options has another mode: see `compile_step`."""
    return replace(options, mode=mode) if options.prefill_split else options


def _step_us(module: ModuleOp, machine: Machine) -> float:
    from tileprobe.targets.cambricon.encode import encode, the_step
    from tileprobe.targets.cambricon.engine.launch import launch

    return launch(encode(module), machine, geometry_of(machine, the_step(module).mode.data)).total_us


def _compiled(model: Model, machine: Machine, options: Options, package: int | None) -> ModuleOp:
    module = build(model, machine, options)
    passes = stages(options)
    if options.packages > 1 and options.split == PIPELINE:
        if package is None:
            raise TileProbeError(
                "in a pipeline every package has a step of its own: traces, --ir and text are for --split tensor"
            )
        first, end = stages_of(model.layers, options.packages)[package]
        passes = [CamStagePass(first, end, package == options.packages - 1), *passes]
    for stage in passes:
        stage.apply(Context(), module)
    module.verify()
    return module


def kv_cache_bytes(model: Model, options: Options) -> int:
    seen = sum(min(options.context, model.window(n) or options.context) for n in range(model.layers))
    return model.cached_values * seen * precision_of(options.weights).kv_bytes * options.batch


def check_cache(model: Model, machine: Machine, options: Options) -> None:
    if options.kv != "dram":
        return
    needed, experts = kv_cache_bytes(model, options), int(options.expert_cache_gb * 1e9)
    if experts and needed + experts > machine.dram.capacity_bytes:
        raise TileProbeError(
            f"{options.expert_cache_gb:g} GB of experts and a KV cache of {needed / 1e9:.2f} GB are more than the "
            f"{machine.dram.capacity_bytes / 1e9:.2f} GB of DRAM of {machine.name}: use --expert-cache of at most "
            f"{max(machine.dram.capacity_bytes - needed, 0) / 1e9:.2f}"
        )
    room = dram_for_cache(machine, model.layers, options.packages, options.split)
    if needed <= room:
        return
    longest = options.context * room // needed
    each, instead = (
        (f"{options.batch} sequences of ", "a smaller --batch") if options.batch > 1 else ("", "--kv spill")
    )
    raise TileProbeError(
        f"the KV cache of {each}{options.context} tokens of {model.name} is {needed / 1e9:.2f} GB, more than the "
        f"{room / 1e9:.2f} GB of DRAM of {machine.name}: use a context of at most "
        f"{longest}, or {instead}"
    )
