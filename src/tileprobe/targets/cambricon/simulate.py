"""Run a model on a machine: options in, a `Result` out. This is what the command line, sweeps and
benchmarks call.

result = simulate(load_model("opt-6.7b"), load_machine("cambricon:s"), Options(context=1000))
result.tokens_per_s
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tileprobe.errors import TileProbeError
from tileprobe.targets.base import Watch, launches
from tileprobe.targets.cambricon.assumptions import assumptions
from tileprobe.targets.cambricon.closed_form import closed_form_us
from tileprobe.targets.cambricon.compile import Options, as_compiled, cache_of, compile_step, routing_of
from tileprobe.targets.cambricon.dialect import AttentionOp, GemvOp, LayersOp, StepOp, find_machine
from tileprobe.targets.cambricon.encode import encode, the_step
from tileprobe.targets.cambricon.energy import energy_of
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import Run, launch
from tileprobe.targets.cambricon.kv_cache import Paged
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.package_results import Link, pipeline_result, tensor_result
from tileprobe.targets.cambricon.packages import PIPELINE, packages_of
from tileprobe.targets.cambricon.pagemap import geometry_of
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.result import Operator, Result, Unit
from tileprobe.targets.cambricon.routing import expert_bytes
from tileprobe.targets.cambricon.upkeep import Upkeep, figures, upkeep_of
from tileprobe.targets.cambricon.walk import gemvs_of, tile_of

SPARE = 0.95  # of the room for a trace is filled, where a first run had more than fits


def simulate(model: Model, machine: Machine, options: Options = Options()) -> Result:  # noqa: B008
    """Compile, run every command, and account for it. A profiling session sees it as a launch."""
    if launches.observer is None:
        return _plain(model, machine, options)
    if options.packages > 1 and options.split == PIPELINE:
        raise TileProbeError(
            "in a pipeline every package has a step of its own, and a trace is of one step: use --split tensor, or "
            "trace the model on one package"
        )
    from tileprobe.targets.cambricon.kernel import Step

    watch = launches.observer(Step(model, machine, options), (1, 1, 1), 0)
    if watch is None:
        return _plain(model, machine, options)
    watch.start()
    result = _plain(model, machine, options) if watch.variant is None else _traced(watch, machine, options)
    watch.stop()
    return _of_model(result, model, machine, options)


def _of_model(result: Result, model: Model, machine: Machine, options: Options) -> Result:
    """What the model knows and its commands do not say."""
    result.experts, result.kv = _experts(model, options), _cache(model, machine, options)
    result.notes = model.notes
    return result


def _experts(model: Model, options: Options) -> dict[str, float] | None:
    routing = routing_of(model, options)
    if routing is None:
        return None
    each = expert_bytes(model, precision_of(options.weights).weight_bits)
    met = [e for one in routing.routes for e in one]
    touched = sum(e >= 0 for e in met)
    return {
        **routing.to_json(), "per_layer": model.experts, "met_per_step": len(met), "from_flash_per_step": touched,
        "from_flash_gb_per_step": touched * each / 1e9,
    }  # fmt: skip


def _cache(model: Model, machine: Machine, options: Options) -> dict[str, float]:
    """Where keys and values lie, and what of them is read and written in flash for a token."""
    plan, flash = cache_of(model, machine, options), machine.flash
    paged = Paged.of(plan.token_bytes, flash.page_bytes)
    # drafts that are verified together share what is read
    read = sum(paged.pages(n) for n in plan.in_flash) / accepted(options.verify, options.acceptance)
    written = plan.spilled * paged.written_per_token
    weights = model.weights * precision_of(options.weights).weight_bits // 8
    free = max(machine.capacity_bytes - weights, 0)
    found: dict[str, float] = {
        "dram_gb": plan.dram_bytes / 1e9, "flash_gb": sum(plan.in_flash) * plan.token_bytes / 1e9,
        "flash_tokens": max(plan.in_flash), "pages_read": read, "pages_written": written,
        "written_gb": written * flash.page_bytes / 1e9,
        "write_amplification": paged.written_per_token * flash.page_bytes / plan.token_bytes if written else 0.0,
    }  # fmt: skip
    if written:  # the free part of the flash, written evenly, until its blocks are worn
        found["tokens_until_worn"] = free * flash.endurance_cycles / (written * flash.page_bytes)
    return found


def accepted(verified: int, acceptance: float) -> float:
    """Tokens that a pass over so many makes in the mean: the first is certain, each other one needs all before it
    accepted (Leviathan et al., ICML 2023).
    """
    return sum(acceptance**n for n in range(verified))


def simulate_module(module: ModuleOp, age: str = "") -> Result:
    """Run a mapped module as it stands, wherever it comes from: what its loops command is what happens."""
    step = the_step(module)
    if any(gemv.tile is None or gemv.body is None or not gemv.body.blocks for gemv in gemvs_of(step)):
        raise TileProbeError(
            f"{step.sym_name.data} is not mapped to commands: run cam-tile,cam-split,cam-double-buffer,cam-map-pages"
        )
    options = Options(
        context=step.context.data, weights=step.weights.data, tiling="given", mode=step.mode.data,
        slicing=step.sliced is not None, prefill=step.kind.data == "prefill",
        lm_head=any(isinstance(op, GemvOp) for op in step.body.block.ops),
        batch=step.batch, age=age, verify=1 if step.kind.data == "prefill" else step.tokens.data // step.batch,
        packages=packages_of(step),
    )  # fmt: skip
    return _run(find_machine(module), options, module)


def _plain(model: Model, machine: Machine, options: Options) -> Result:
    if options.packages > 1 and options.split == PIPELINE:
        parts = [compile_step(model, machine, options, n) for n in range(options.packages)]
        result = pipeline_result([_run(machine, options, part) for part in parts], machine, model.hidden)
    else:
        result = _run(machine, options, compile_step(model, machine, options))
    if result.missing:
        raise TileProbeError(
            f"commands of {', '.join(result.missing)} are not the pages of these matrices: please report it"
        )
    return _of_model(result, model, machine, options)


def _run(machine: Machine, options: Options, module: ModuleOp) -> Result:
    program, step = encode(module), the_step(module)
    options, geometry = as_compiled(options, step.mode.data), geometry_of(machine, step.mode.data)
    upkeep = upkeep_of(machine, options, step, program, geometry, produced_by(options, step.tokens.data))
    worn = (upkeep.wear, upkeep.rewrites) if upkeep is not None else (None, 0.0)
    run = launch(program, machine, geometry, None, 0, *worn)
    result = account(machine, options, module, program, run, upkeep)
    return _of_all_packages(result, machine, options, program)


def _of_all_packages(result: Result, machine: Machine, options: Options, program: p.Program) -> Result:
    """Packages that run alike: what one of them was simulated to do is done by all."""
    if options.packages == 1 or options.split == PIPELINE:
        return result
    link = Link(program.meta["sent_bytes"] * options.packages, float(program.costs[:, p.LINK_US].sum()))
    return tensor_result(result, machine, options.packages, link)


def _traced(watch: Watch, machine: Machine, options: Options) -> Result:
    """The same with every interval kept, as many as there is room for."""
    from tileprobe.targets.cambricon.tracing import parts_of, sampled

    assert watch.variant is not None
    module = watch.variant.code
    program, step = encode(module), the_step(module)
    options, geometry = as_compiled(options, step.mode.data), geometry_of(machine, step.mode.data)
    upkeep = upkeep_of(machine, options, step, program, geometry, produced_by(options, step.tokens.data))
    worn = (upkeep.wear, upkeep.rewrites) if upkeep is not None else (None, 0.0)
    keep = sampled(program, watch.room)
    run = launch(program, machine, geometry, keep, watch.room, *worn)
    room = float(watch.room)
    while run.trace.count[1]:  # more than was thought: fewer layers, so that what is kept is whole
        kept, lost = run.trace.count[:2].tolist()
        room *= SPARE * kept / (kept + lost)
        fewer = sampled(program, int(room))
        if (fewer == keep).all():
            break
        keep = fewer
        run = launch(program, machine, geometry, keep, watch.room, *worn)
    result = account(machine, options, module, program, run, upkeep)
    watch.exact(parts_of(result, machine, watch.variant.regions, program, geometry, run))
    return _of_all_packages(result, machine, options, program)


def produced_by(options: Options, tokens: int) -> float:
    """Tokens that come of a step in the mean."""
    return float(tokens) if options.prefill else options.batch * accepted(options.verify, options.acceptance)


def account(
    machine: Machine,
    options: Options,
    module: ModuleOp,
    program: p.Program,
    run: Run,
    upkeep: Upkeep | None = None,
) -> Result:
    """Turn the engine's counters into a result, and check that nothing was lost on the way."""
    from tileprobe.targets.cambricon.engine import state as s

    stats = run.state.stats.sum(axis=0)
    total = run.total_us
    computed, streamed = int(stats[s.N_COMPUTED]), int(stats[s.N_STREAMED])
    pages = int(pages_of(program).sum())
    if computed + streamed != pages:
        raise TileProbeError(
            f"the engine issued {computed + streamed} page commands for {pages} pages: please report it"
        )
    step = the_step(module)
    tiles = [tile_of(gemv) for gemv in gemvs_of(step)]
    tokens = step.tokens.data
    traffic = {
        "input": stats[s.BYTES_INPUT] / 1e9,
        "result": stats[s.BYTES_RESULT] / 1e9,
        "stream": stats[s.BYTES_STREAM] / 1e9,
        "spare": stats[s.BYTES_SPARE] / 1e9,
    }
    again = int(
        run.state.upkeep[:, [s.N_RETRIES, s.N_REWRITES]].sum()
    )  # array reads beside those of the step
    busy = stats[: s.BUSY_COMMAND + 1] / (total * machine.flash.channels)
    units = _units(machine, run, stats, busy, total, computed, streamed)
    return Result(
        model=step.sym_name.data,
        device=machine.name,
        options=options,
        tokens=tokens,
        latency_ms=total / 1e3,
        produced=produced_by(options, tokens),
        channel_use=float(busy[: s.BUSY_COMMAND].sum()),
        channel_gb=float(sum(traffic.values())),
        traffic_gb={k: float(v) for k, v in traffic.items()},
        energy_j=energy_of(machine, program, run, sum(traffic.values()) * 1e9, pages + again),
        alpha=computed / max(pages, 1),
        tile=(tiles[0].rows, tiles[0].cols),
        tiles={gemv.label.data: [tile.rows, tile.cols] for gemv, tile in zip(gemvs_of(step), tiles)},
        page_commands=pages,
        read_compute_commands=computed,
        page_reads=streamed,
        slices=int(stats[s.N_SLICES]),
        units=units,
        operators=_operators(program, run),
        weight_bytes=_weights(program) * precision_of(options.weights).weight_bits // 8,
        macs=round(program.meta["macs"]),
        kv_gb=0.0 if options.prefill else _cached_bytes(step) / 1e9,
        closed_form_ms=closed_form_us(step, program, machine) / 1e3,
        core_area_mm2=machine.core_area_mm2,
        missing=program.meta["missing"],
        aging=figures(machine, upkeep, run) if upkeep is not None else None,
        assumed=assumptions(machine, options, step),
    )


def _cached_bytes(step: StepOp) -> int:
    """Keys and values of all layers."""
    total = 0
    for op in (o for o in step.walk() if isinstance(o, AttentionOp)):
        layers = op.parent_op()
        count = layers.count.data if isinstance(layers, LayersOp) else 1
        total += count * op.cached_values * op.seen(step.context.data)
    return total * precision_of(step.weights.data).kv_bytes * step.batch


def pages_of(program: p.Program) -> np.ndarray:
    """Page commands of each matrix."""
    bodies = program.bodies
    return (bodies.computed + bodies.streamed)[program.matrices[:, p.BODY]]


def _weights(program: p.Program) -> int:
    """That the step multiplies by: in flash, and of experts in DRAM."""
    return int(
        (program.matrices[:, p.ROWS] * program.matrices[:, p.COLS]).sum() + program.meta["dram_weights"]
    )


def _units(
    machine: Machine, run: Run, stats, busy, total: float, computed: int, streamed: int
) -> dict[str, Unit]:
    from tileprobe.targets.cambricon.engine import state as s

    planes = machine.dies * machine.flash.planes_per_die
    reads_us = (computed + streamed) * machine.flash.read_us + float(run.state.upkeep[:, s.UPKEEP_US].sum())
    cores = machine.flash.channels * machine.cores_per_channel
    parts = dict(zip(("input", "result", "stream", "spare", "command"), (float(b) for b in busy)))
    transfers = max(stats[s.N_RESULTS] + stats[s.N_INPUTS], 1.0)
    return {
        "channels": Unit(
            machine.flash.channels,
            float(busy.sum()),
            {**parts, "wait_us": float(stats[s.WAIT_RC] / transfers)},
        ),
        "planes": Unit(planes, reads_us / (total * planes)),
        "cores": Unit(cores, float(run.state.core_busy.sum()) / (total * cores)),
        "npu_array": Unit(1, float(run.busy_us[0]) / total),
        "npu_sfu": Unit(1, float(run.busy_us[1]) / total),
        "dram": Unit(1, float(run.busy_us[2]) / total),
    }


def _operators(program: p.Program, run: Run) -> list[Operator]:
    """Time by operator: what each added to the end of all before it, so that the times sum to the whole."""
    before = np.concatenate(([0.0], np.maximum.accumulate(run.done_us)[:-1]))
    added = np.maximum(run.done_us - before, 0.0)
    pages = np.concatenate(([0], np.cumsum(pages_of(program))))
    names = ("flash + npu", "npu", "npu + dram", "link")
    found: dict[str, Operator] = {}
    for n, label in enumerate(program.labels):
        row = program.operators[n]
        here = int(pages[row[p.END_MATRIX]] - pages[row[p.FIRST_MATRIX]]) if row[p.KIND] == p.WEIGHTS else 0
        op = found.setdefault(label, Operator(label, names[row[p.KIND]], 0, 0.0, 0.0, 0))
        op.count += 1
        op.time_ms += float(added[n]) / 1e3
        op.pages += here
    for op in found.values():
        op.share = op.time_ms / (run.total_us / 1e3)
    return list(found.values())
