"""One result of several packages that share a model.

Split `tensor` all run alike: one was simulated, and what all do is so many times that. In a `pipeline` each was
simulated, and a token takes them one after the other, handed over a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.packages import PIPELINE, TENSOR
from tileprobe.targets.cambricon.result import Operator, Result, Unit

HANDED_BYTES = 2  # of a value between layers, which the NPU keeps in 16 bits
TOKEN_BYTES = 4  # that the last package tells the first


@dataclass(frozen=True)
class Link:
    """What went over the links between packages in one step."""

    sent_bytes: float  # by all of them
    busy_us: float  # of the step's time


def tensor_result(one: Result, machine: Machine, packages: int, link: Link) -> Result:
    """All packages of a step that they run alike."""
    n = packages
    found = replace(
        one,
        device=f"{n} x {one.device}",
        channel_gb=one.channel_gb * n,
        traffic_gb={k: v * n for k, v in one.traffic_gb.items()},
        energy_j={k: v * n for k, v in one.energy_j.items()},
        page_commands=one.page_commands * n,
        read_compute_commands=one.read_compute_commands * n,
        page_reads=one.page_reads * n,
        slices=one.slices * n,
        units={name: replace(unit, count=unit.count * n) for name, unit in one.units.items()},
        operators=[replace(op, pages=op.pages * n) for op in one.operators],
        weight_bytes=one.weight_bytes * n,
        macs=one.macs * n,
        kv_gb=one.kv_gb * n,
        core_area_mm2=one.core_area_mm2 * n,
        aging=_aging(one.aging, n),
    )
    return _linked(found, machine, packages, TENSOR, link, one.latency_ms)


def _aging(one: dict[str, float] | None, packages: int) -> dict[str, float] | None:
    counts = ("retries", "lost", "rewrites", "erases")
    return None if one is None else {k: v * packages if k in counts else v for k, v in one.items()}


def pipeline_result(stages: Sequence[Result], machine: Machine, hidden: int) -> Result:
    """The packages of a pipeline, one after the other. In `packages` stands what they do when each has a sequence of
    its own to work on.
    """
    first, n = stages[0], len(stages)
    hop_bytes = hidden * first.tokens * HANDED_BYTES
    last_bytes = first.tokens * TOKEN_BYTES
    hop_us, last_us = (machine.packages.latency_us + size / (machine.packages.gb_per_s * 1e3)
                       for size in (hop_bytes, last_bytes))  # fmt: skip
    link = Link((n - 1) * hop_bytes + last_bytes, (n - 1) * hop_us + last_us)
    total = sum(stage.latency_ms for stage in stages) + link.busy_us / 1e3
    pages = sum(stage.page_commands for stage in stages)
    computed = sum(stage.read_compute_commands for stage in stages)
    summed = {
        name: sum(getattr(stage, name) for stage in stages)
        for name in (
            "channel_gb", "page_commands", "read_compute_commands", "page_reads", "slices", "weight_bytes", "macs",
            "kv_gb", "closed_form_ms", "core_area_mm2",
        )
    }  # fmt: skip
    found = replace(
        first,
        device=f"{n} x {first.device}",
        latency_ms=total,
        channel_use=sum(stage.channel_use * stage.latency_ms for stage in stages) / (n * total),
        traffic_gb={k: sum(stage.traffic_gb[k] for stage in stages) for k in first.traffic_gb},
        energy_j={k: sum(stage.energy_j[k] for stage in stages) for k in first.energy_j},
        alpha=computed / max(pages, 1),
        tiles={k: v for stage in stages for k, v in stage.tiles.items()},
        units={name: _unit([s.units[name] for s in stages], stages, total) for name in first.units},
        operators=_operators(stages, link, total),
        missing={k: v for stage in stages for k, v in stage.missing.items()},
        **summed,
    )
    return _linked(
        found, machine, n, PIPELINE, link, max(stage.latency_ms for stage in stages) + hop_us / 1e3
    )


def _linked(found: Result, machine: Machine, packages: int, split: str, link: Link, beat_ms: float) -> Result:
    pj = machine.energy.pcie_pj_per_bit
    found.energy_j = {**found.energy_j, "packages": link.sent_bytes * 8 * pj * 1e-12}
    found.packages = {
        "count": packages, "split": split, "sent_mb": link.sent_bytes / 1e6, "link_ms": link.busy_us / 1e3,
        "all_busy_tokens_per_s": found.produced * 1e3 / beat_ms,
    }  # fmt: skip
    return found


def _unit(units: Sequence[Unit], stages: Sequence[Result], total: float) -> Unit:
    """Units of all packages; each works while its package has the token."""
    n = len(stages)
    weights = [stage.latency_ms / total for stage in stages]
    busy = sum(unit.busy * w for unit, w in zip(units, weights)) / n
    if units[0].parts is None:
        return Unit(units[0].count * n, busy)
    shares = {
        name: sum((unit.parts or {})[name] * w for unit, w in zip(units, weights))
        / (1 if name == "wait_us" else n)
        for name in units[0].parts
    }
    return Unit(units[0].count * n, busy, shares)


def _operators(stages: Sequence[Result], link: Link, total: float) -> list[Operator]:
    found: dict[str, Operator] = {}
    for op in (op for stage in stages for op in stage.operators):
        one = found.setdefault(op.name, replace(op, count=0, time_ms=0.0, pages=0))
        one.count, one.time_ms, one.pages = (
            one.count + op.count,
            one.time_ms + op.time_ms,
            one.pages + op.pages,
        )
    found["hand over"] = Operator("hand over", "link", len(stages), link.busy_us / 1e3, 0.0, 0)
    for op in found.values():
        op.share = op.time_ms / total
    return list(found.values())
