"""From what a user typed to a model, a machine and options; shared by a single run and by sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import Machine, find_constant, load_machine
from tileprobe.targets.cambricon.model import Model, load_model
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT


def settings_of(given: Mapping[str, Any]) -> tuple[Model, Machine, Options]:
    """The three things a run needs, from the names of the command line's options."""
    counts = [
        f"{name}={given[name]}" for name in ("channels", "chips_per_channel") if given.get(name) is not None
    ]
    changes = parse_changes([*counts, *(given.get("set") or [])])
    machine = load_machine(given["device"])
    if changes:
        machine = machine.replace(**changes)
    return load_model(given["model"], mha=bool(given.get("mha"))), machine, options_of(given)


def check_say(fixed: Mapping[str, Any], varied: Mapping[str, Iterable[Any]] = MappingProxyType({})) -> None:
    """Refuses what was given and has no say in any of the points, which share `fixed` and differ in `varied`."""
    for name, of in (("acceptance", "verify"), ("split", "packages")):
        if name not in varied and fixed.get(name) is None:
            continue
        given = varied.get(of, (fixed.get(of),))
        if all(value is None or value == 1 for value in given):
            raise TileProbeError(
                f"--{name} has no say without --{of} of 2 or more: give that, or leave it out"
            )


def options_of(given: Mapping[str, Any]) -> Options:
    mode = given.get("mode") or SPLIT
    if given.get("flash_only"):
        mode = FLASH_ONLY
    if given.get("npu_only"):
        mode = NPU_ONLY
    if mode not in (SPLIT, FLASH_ONLY, NPU_ONLY):
        raise TileProbeError(f"mode must be {SPLIT}, {FLASH_ONLY} or {NPU_ONLY}, found {mode!r}")
    if given.get("tiling", "paper") not in ("paper", "best"):
        raise TileProbeError(f"tiling must be paper or best, found {given['tiling']!r}")
    return Options(
        context=given.get("context", 1000),
        weights=given.get("weights", "w8a8"),
        tiling=given.get("tiling", "paper"),
        tile=given.get("tile") or "",
        mode=mode,
        slicing=bool(given.get("slicing", True)) and not given.get("no_slicing"),
        lm_head=bool(given.get("lm_head")),
        prefill=bool(given.get("prefill")),
        kv=given.get("kv") or "dram",
        batch=1 if given.get("batch") is None else given["batch"],
        verify=1 if given.get("verify") is None else given["verify"],
        acceptance=0.8 if given.get("acceptance") is None else float(given["acceptance"]),
        prefill_split=bool(given.get("prefill_split")),
        packages=1 if given.get("packages") is None else given["packages"],
        split=given.get("split") or "tensor",
        age=given.get("age") or "",
        routing=given.get("routing") or "uniform",
        seed=given.get("seed") or 0,
        expert_cache_gb=float(given.get("expert_cache") or 0.0),
    )


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """`["read_us=25", "prefetch=false"]` as constants of a machine."""
    changes: dict[str, Any] = {}
    found: set[tuple[str, str]] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise TileProbeError(f"{pair!r} is no change: write CONSTANT=VALUE, such as read_us=25")
        constant = find_constant(name.strip())
        if constant in found:
            raise TileProbeError(f"{constant[1]} of the device is given twice")
        found.add(constant)
        changes[name.strip()] = parse_value(text)
    return changes


def parse_value(text: str) -> Any:
    """A number, a flag or a word."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
