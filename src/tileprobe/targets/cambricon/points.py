"""A point of a sweep or a search: settings of a run in, the figures of its table out.

Settings are the options of `tileprobe llm` and constants of the device, by name. `WORK` is what the sweeps of the
package need to know: the function, what a result depends on, and the files that a point reads.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.sweeps.points import Work
from tileprobe.targets.cambricon.command import parse_changes, parse_value, settings_of
from tileprobe.targets.cambricon.device_file import files_of
from tileprobe.targets.cambricon.machine import find_constant

# settings of a run that can be varied beside the constants of the device, with the type they have in a table
OPTIONS = {
    "model": str, "device": str, "context": int, "weights": str, "tiling": str, "tile": str, "mode": str,
    "kv": str, "age": str, "packages": int, "split": str,
    "batch": int, "verify": int, "acceptance": float, "prefill_split": bool,
    "routing": str, "seed": int, "expert_cache": float,
    "slicing": bool, "mha": bool, "lm_head": bool, "prefill": bool, "channels": int, "chips_per_channel": int,
}  # fmt: skip
RESULTS = ("tokens_per_s", "latency_ms", "channel_use", "channel_gb_per_token", "joules_per_token", "alpha")
UNITS = ("channels", "planes", "cores", "npu_array", "npu_sfu", "dram")
FIGURES = (*RESULTS, "page_commands", "tile_rows", "tile_cols", *(f"{unit}_busy" for unit in UNITS))
HERE = Path(__file__).parent


def value_of(name: str, text: str) -> Any:
    """A value as the user writes it; a name that no device has is an error, as is a word where a number belongs."""
    if name not in OPTIONS:
        find_constant(name)
    if OPTIONS.get(name) is str:
        return text
    value = parse_value(text)
    if isinstance(value, str):
        raise TileProbeError(f"{name} takes numbers, or true and false; found {text!r}")
    kind = OPTIONS.get(name, type(value))
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        takes = {int: "whole numbers", float: "numbers", bool: "true and false"}[kind]
        raise TileProbeError(f"{name} takes {takes}; found {text!r}")
    return value


def fixed_of(args: argparse.Namespace) -> dict[str, Any]:
    """What all points share, from the options of a command."""
    mode = "flash-only" if args.flash_only else "npu-only" if args.npu_only else "split"
    given: dict[str, Any] = {**vars(args), "mode": mode, "slicing": not args.no_slicing}
    fixed = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    if args.set:
        parse_changes(args.set)
        fixed["set"] = args.set
    return fixed


def run_point(settings: dict[str, Any]) -> dict[str, Any]:
    """The figures of a point."""
    from tileprobe.targets.cambricon.simulate import simulate

    result = simulate(*settings_of(given(settings))).to_json()
    row: dict[str, Any] = {name: float(result[name]) for name in RESULTS}
    row |= {
        "page_commands": result["page_commands"],
        "tile_rows": result["tile"][0],
        "tile_cols": result["tile"][1],
    }
    return row | {f"{name}_busy": float(result["units"][name]["busy"]) for name in UNITS}


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as `settings_of` takes them: constants of the device are changes."""
    found = {k: v for k, v in settings.items() if k in OPTIONS}
    changes = [f"{k}={v}" for k, v in settings.items() if k not in OPTIONS and k != "set"]
    return {**found, "set": [*settings.get("set", []), *changes]}


def columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as columns of one type each; a list of changes becomes text."""
    return {k: " ".join(v) if isinstance(v, list) else v for k, v in settings.items() if v is not None}


def _seen(settings: dict[str, Any]) -> dict[str, str]:
    """The model and the machine as they are now."""
    try:
        model, machine, _ = settings_of(given(settings))
    except TileProbeError:
        return {}  # running it says why
    return {"inputs": hashlib.sha256(repr((model, machine)).encode()).hexdigest()[:16]}


def _files(settings: dict[str, Any]) -> tuple[str, ...]:
    named = [
        str(settings.get("model")),
        str(settings.get("routing")),
        *_device_files(settings.get("device", "")),
    ]
    return tuple(path for path in named if Path(path).is_file())


def _device_files(device: str) -> Iterable[str]:
    """The file of a device, and those that it inherits from or that are laid over it."""
    try:
        return files_of(device) if device else ()
    except TileProbeError:
        return ()  # running it says why


@cache
def work() -> Work:
    """What a result depends on beside its settings: all that compiles and simulates."""
    from tileprobe.targets.jit import sources_hash

    identity = " ".join(sources_hash(HERE / name) for name in ("simulate.py", "command.py", "passes"))
    return Work(f"{__name__}:run_point", identity, seen=_seen, seen_files=_files, first_alone=True)
