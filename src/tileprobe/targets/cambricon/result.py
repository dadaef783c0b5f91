"""What a run found: plain data with its JSON form. Rendering is elsewhere (`report.py`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tileprobe.targets.cambricon.compile import Options


@dataclass
class Operator:
    """An operator of all layers together. `time_ms` is what it added to the step, so that times sum to the
    whole.
    """

    name: str
    unit: str
    count: int
    time_ms: float
    share: float
    pages: int


@dataclass
class Unit:
    """A kind of unit: how many there are, the share of the step they worked, and that share by what they
    did.
    """

    count: int
    busy: float
    parts: dict[str, float] | None = None


@dataclass
class Result:
    """One step (a decoded token; a whole prompt in a prefill) of a model on a device.

    `channel_use` is the share of time in which channels move data; their busy time counts commands as well.
    """

    model: str
    device: str
    options: Options
    tokens: int
    latency_ms: float
    produced: float  # tokens that come of it in the mean: fewer than verified ones
    channel_use: float
    channel_gb: float
    traffic_gb: dict[str, float]
    energy_j: dict[str, float]
    alpha: float
    tile: tuple[int, int]
    tiles: dict[str, list[int]]
    page_commands: int
    read_compute_commands: int
    page_reads: int
    slices: int
    units: dict[str, Unit]
    operators: list[Operator]
    weight_bytes: int
    macs: int
    kv_gb: float
    closed_form_ms: float
    core_area_mm2: float
    experts: dict[str, float] | None = None  # of a mixture: what its tokens met, see routing.py
    kv: dict[str, float] | None = None  # where keys and values lie
    packages: dict[str, Any] | None = None  # several that share the model, see packages.py
    aging: dict[str, float] | None = None  # of a flash that ages, see upkeep.py
    missing: dict[str, int] = field(
        default_factory=dict
    )  # weights of a matrix without a command, or with several
    assumed: dict[str, dict[str, Any]] = field(default_factory=dict)  # constants, see assumptions.py
    notes: tuple[str, ...] = ()  # of the model's configuration, that are not counted

    @property
    def tokens_per_s(self) -> float:
        return self.produced * 1e3 / self.latency_ms

    @property
    def joules_per_token(self) -> float:
        return sum(self.energy_j.values()) / self.produced

    def to_json(self) -> dict[str, Any]:
        """The fields that scripts read, stable names first."""
        return {
            "model": self.model,
            "device": self.device,
            "tokens_per_s": self.tokens_per_s,
            "latency_ms": self.latency_ms,
            "channel_use": self.channel_use,
            "channel_gb_per_token": self.channel_gb / self.produced,
            "joules_per_token": self.joules_per_token,
            "alpha": self.alpha,
            "tile": list(self.tile),
            "page_commands": self.page_commands,
            "units": {
                name: {k: v for k, v in asdict(unit).items() if v is not None}
                for name, unit in self.units.items()
            },
            "operators": [asdict(op) for op in self.operators],
            "tiles": self.tiles,
            "read_compute_commands": self.read_compute_commands,
            "page_reads": self.page_reads,
            "slices": self.slices,
            "traffic_gb": self.traffic_gb,
            "energy_j": self.energy_j,
            "kv_cache_gb": self.kv_gb,
            "weight_gb": self.weight_bytes / 1e9,
            "tokens": self.tokens,
            "produced": self.produced,
            "closed_form_ms": self.closed_form_ms,
            "core_area_mm2": self.core_area_mm2,
            "experts": self.experts,
            "kv": self.kv,
            "aging": self.aging,
            "packages": self.packages,
            "not_commanded": self.missing,
            "assumed": self.assumed,
            "notes": list(self.notes),
            "options": asdict(self.options),
        }
