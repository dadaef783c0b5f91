"""Cambricon-LLM: do the tools name by themselves what the paper's figures say?

Runs configurations S, M and L as they are, without slice control and with the flash alone, and holds what `units` and
`overlap` name against what doing the thing brings. One kind of unit that is named has to be the one that helps most
when it is twice as quick; of two alike neither may help much alone, and both together must; long transfers that hold
the channel (`overlap`) have to be what slice control mends. The cores in the flash die take as long for a page as the
flash takes to read it: their part is both.

Usage: python -m benchmarks.cambricon_tools [--model opt-6.7b]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

from benchmarks._common import save
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import Machine, load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate

VARIANTS = {
    "as it is": Options(),
    "no slice control": Options(slicing=False),
    "flash only": Options(mode="flash-only"),
}
# What the paper (arXiv:2409.15654) says of them, in our words.
SAID = {
    "as it is": "channels and flash share the weights, so that both are busy",
    "no slice control": "reads block the channel, which stands idle in between: speed and channel use fall",
    "flash only": "channels carry inputs and results alone; the flash limits",
}
FASTER = 2.0
ENOUGH = 0.1  # of the time saved: what limits brings this much
CHANNEL, CORES, BOTH, SLICES = "channel", "flash and core", "channel, flash and core", "slice control"
PARTS = {"channel": CHANNEL, "core": CORES, "plane": CORES}  # of a kind of unit, what is made quicker


def told(model: Any, machine: Machine, options: Options) -> dict[str, Any]:
    """What the tools say of one step."""
    import tileprobe

    with tileprobe.profile(tools=["units", "overlap"]) as session:
        result = simulate(model, machine, options)
    units, overlap = session.results()
    limit = next((f for f in units.findings if "limit" in f.text or "busiest" in f.text), None)
    held = next((f for f in overlap.findings if f.data.get("cause") == "held"), None)
    return {
        "tokens_per_s": result.tokens_per_s,
        "limit": "" if limit is None else limit.text,
        "kinds": [] if limit is None else limit.data.get("kinds", []),
        "held": "" if held is None else held.text,
    }


def gains(model: Any, machine: Machine, options: Options) -> dict[str, float]:
    """What it brings to do a thing: the share of time saved."""
    flash = machine.flash
    wide = replace(flash, channel_gb_per_s=FASTER * flash.channel_gb_per_s)
    cores = replace(
        machine,
        flash=replace(flash, read_us=flash.read_us / FASTER),
        core=replace(machine.core, page_us=machine.core.page_us / FASTER),
    )
    quicker = {
        CHANNEL: replace(machine, flash=wide),
        CORES: cores,
        BOTH: replace(cores, flash=replace(cores.flash, channel_gb_per_s=wide.channel_gb_per_s)),
    }
    before = simulate(model, machine, options).latency_ms
    found = {name: 1 - simulate(model, made, options).latency_ms / before for name, made in quicker.items()}
    if not options.slicing:
        found[SLICES] = 1 - simulate(model, machine, replace(options, slicing=True)).latency_ms / before
    return found


def wrong(row: dict[str, Any]) -> str:
    """What doing it does not confirm; empty where it does."""
    found = row["gains"]
    kinds: list[str] = row["kinds"]
    parts = {PARTS.get(kind, kind) for kind in kinds}
    single = {name: found[name] for name in (CHANNEL, CORES)}
    sliced = found.get(SLICES, 0.0)
    if row["held"]:
        return "" if sliced >= max(ENOUGH, *single.values()) else "slices would not be what helps most"
    if sliced >= ENOUGH:
        return "nothing says that pages hold the channel"
    if not parts or not parts <= set(single):
        return f"names {', '.join(sorted(parts)) or 'nothing'}, which was not made quicker"
    if len(parts) > 1:
        alone = max(single.values())
        return "" if alone < ENOUGH <= found[BOTH] else "they do not limit alike"
    (part,) = parts
    return "" if single[part] >= max(ENOUGH, *single.values()) else f"{part} is not what helps most"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="opt-6.7b")
    args = parser.parse_args()
    model, rows = load_model(args.model), []
    for size in ("s", "m", "l"):
        machine = load_machine(f"cambricon:{size}")
        for name, options in VARIANTS.items():
            row = {"machine": size, "variant": name, **told(model, machine, options)}
            row["gains"] = gains(model, machine, options)
            row["wrong"] = wrong(row)
            rows.append(row)
            print(f"{size.upper()}, {name}: {row['tokens_per_s']:.3g} tokens/s")
            print(f"  paper:   {SAID[name]}")
            print(f"  units:   {row['limit']}")
            if row["held"]:
                print(f"  overlap: {row['held']}")
            said = ", ".join(f"{part} {100 * gain:.0f} %" for part, gain in row["gains"].items())
            print(f"  doing it (twice as quick, or as named) saves of the time: {said}")
            print(f"  {'not confirmed: ' + row['wrong'] if row['wrong'] else 'confirmed'}", flush=True)
    save("cambricon_tools", {"model": args.model, "rows": rows})
    right = sum(not row["wrong"] for row in rows)
    print(f"{right} of {len(rows)} are confirmed by doing it")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
