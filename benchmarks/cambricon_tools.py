"""Cambricon-LLM: do the tools name by themselves what the paper's figures say?

Runs configurations S, M and L as they are, without slice control and with the flash alone, and prints what `units` and
`overlap` name as limiting each, beside what the paper says of it. The names are held against what doing the thing
brings: what limits a run is what helps it when it is twice as quick. The cores in the flash die take as long for a page
as the flash takes to read it, so that neither alone helps much.

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


def told(model: Any, machine: Machine, options: Options) -> dict[str, Any]:
    """What the tools say of one step."""
    import tileprobe

    with tileprobe.profile(tools=["units", "overlap"]) as session:
        result = simulate(model, machine, options)
    units, overlap = session.results()
    limit = next((f for f in units.findings if "limit" in f.text or "busiest" in f.text), None)
    exposed = next((f for f in overlap.findings if "exposed" in f.data), None)
    busy = next((t.frame for t in units.tables if t.title.endswith("busy")), None)
    shares = {} if busy is None else dict(zip(busy.columns, busy.to_dict(as_series=False).values()))
    return {
        "tokens_per_s": result.tokens_per_s,
        "limit": "" if limit is None else limit.text,
        "kinds": [] if limit is None else limit.data.get("kinds", []),
        "exposed": "" if exposed is None else exposed.text,
        "busy": shares,
    }


def gains(model: Any, machine: Machine, options: Options) -> dict[str, float]:
    """What it brings to have one part twice as quick: the share of time saved."""
    flash = machine.flash
    quicker = {
        "channel": replace(machine, flash=replace(flash, channel_gb_per_s=FASTER * flash.channel_gb_per_s)),
        "flash": replace(machine, flash=replace(flash, read_us=flash.read_us / FASTER)),
        "core": replace(machine, core=replace(machine.core, page_us=machine.core.page_us / FASTER)),
    }
    both = replace(quicker["flash"], core=quicker["core"].core)
    quicker["flash and core"] = both
    before = simulate(model, machine, options).latency_ms
    return {name: 1 - simulate(model, made, options).latency_ms / before for name, made in quicker.items()}


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
            rows.append(row)
            print(f"{size.upper()}, {name}: {row['tokens_per_s']:.3g} tokens/s")
            print(f"  paper:   {SAID[name]}")
            print(f"  units:   {row['limit']}")
            print(f"  overlap: {row['exposed']}")
            said = ", ".join(f"{part} {100 * gain:.0f} %" for part, gain in row["gains"].items())
            print(f"  doing it: twice as quick saves of the time: {said}")
    save("cambricon_tools", {"model": args.model, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
