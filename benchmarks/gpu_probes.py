"""What probes add to machine code, against Proton on the same kernels and regions: compiled for each architecture, read
from the cubin or from AMD's assembly, run nowhere.

Both record every warp with 64-bit clocks. Regions are the kernel, its loops, their iterations and every stage; issue
and wait of asynchronous operations are left out, Proton has no records for them. Where a region ends and the next
begins, Proton writes two records and we one. Prints a table, writes JSON; exits with 1 if a record in a loop takes more
than 3 instructions on average, or all of ours more than half of what Proton's shared buffer adds, but for kernels of
which `ABOVE` says why. Where Proton's passes cannot compile a kernel there is a dash, and so there is where a kernel is
shorter with its records than without. The last column is copies from register to register in AMD's loops, which records
do not read (plain, ours).
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import triton

from benchmarks._common import RESULTS
from benchmarks._gpu_kernels import KERNELS, Kernel
from tileprobe.targets.gpu.compile import add_probes, gpu_target
from tileprobe.targets.gpu.copies import copies_in_loops, copies_of_records
from tileprobe.targets.gpu.evidence import read_code, side, synchronous
from tileprobe.targets.gpu.machine_code import a_record_in_a_loop, lost_records
from tileprobe.targets.gpu.proton import silent, with_proton
from tileprobe.tools.plan import Plan

MOST_A_RECORD = 3.0
MOST_OF_PROTON = 0.5
# Kernels of which all of ours may be more than half of Proton's, and why.
ABOVE = {
    "nested loops": "ptxas makes seven copies of an inner loop of four instructions, each with what says whether its "
    "iteration is kept",
}
_DENSE = Plan(loops=True, iterations=True, kinds=("all",))


def measure(kernel: Kernel, machine: str) -> dict[str, Any]:
    target = gpu_target("hip" if machine.startswith("gfx") else "cuda", machine)
    plain = triton.compile(kernel.source(), target=target, options=kernel.options)
    pipeline = synchronous(_DENSE.pipeline("ttgir", records={"granularity": "warp"}))
    before = side(plain)
    ours = add_probes(plain, pipeline)
    assert ours is not None
    code = read_code(ours.kernel)
    looped = {slot.id for slot in ours.layout.slots if slot.loops}
    sides: dict[str, Any] = {"plain": before, "ours": {**side(ours.kernel), "records": len(ours.records)}}
    for buffer in ("shared", "global"):
        try:
            with silent():  # MLIR writes the whole module of what it cannot compile
                found = with_proton(plain, pipeline, buffer)
        except RuntimeError:  # Proton has no records for this machine (RDNA)
            continue
        if found is not None:
            sides[f"proton {buffer}"] = {**side(found[0]), "records": found[1]}
    added = {
        name: held["instructions"] - before["instructions"] for name, held in sides.items() if name != "plain"
    }
    return {
        "kernel": kernel.name,
        "machine": machine,
        "sides": sides,
        "added": added,
        "own": len(code.own),
        "a_record_in_a_loop": a_record_in_a_loop(code, looped),
        "copies_in_loops": [
            copies_in_loops(part) - copies_of_records(part) for part in (read_code(plain), code)
        ],
        "lost": lost_records(code, ours.records),
        "of_proton": added["ours"] / added["proton shared"]
        if added.get("proton shared", 0) > 0 and added["ours"] > 0
        else None,
    }


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", action="append", help="80, 90, gfx942, ...; default: all")
    args = parser.parse_args(words)
    rows = [
        measure(kernel, machine)
        for kernel in KERNELS
        for machine in kernel.machines
        if not args.machine or machine in args.machine
    ]
    head = (
        "",
        "machine",
        "plain",
        "ours",
        "Proton sh.",
        "Proton gl.",
        "share",
        "a record",
        "registers",
        "spilled",
        "copies",
    )
    print(f"{head[0]:22}" + "".join(f"{title:>14}" for title in head[1:]))
    for row in rows:
        print(_line(row))
    both = [row["added"] for row in rows if "proton shared" in row["added"]]
    if both:
        ours, theirs = (sum(added[name] for added in both) for name in ("ours", "proton shared"))
        print(
            f"in all, where both compile: ours {ours:+}, Proton's shared buffer {theirs:+}: {ours / theirs:.2f} of it"
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gpu_probes.json").write_text(json.dumps(rows, indent=1))
    return int(not all(_good(row) for row in rows))


def _line(row: dict[str, Any]) -> str:
    sides, added = row["sides"], row["added"]
    counts = [
        f"{added[name]:+} ({sides[name]['records']})" if name in added else "-"
        for name in ("ours", "proton shared", "proton global")
    ]
    share = "-" if row["of_proton"] is None else f"{row['of_proton']:.2f}"
    each = "-" if row["a_record_in_a_loop"] is None else f"{row['a_record_in_a_loop']:.1f}"
    kept = [name for name in ("plain", "ours", "proton shared") if name in sides]
    registers, spilled = (
        "/".join(str(sides[name][key]) for name in kept) for key in ("registers", "spill_bytes")
    )
    copies = "/".join(map(str, row["copies_in_loops"])) if row["machine"].startswith("gfx") else "-"
    cells = (row["machine"], sides["plain"]["instructions"], *counts, share, each, registers, spilled, copies)
    return f"{row['kernel']:22}" + "".join(f"{cell!s:>14}" for cell in cells)


def _good(row: dict[str, Any]) -> bool:
    each, share = row["a_record_in_a_loop"], row["of_proton"]
    return (
        not row["lost"]
        and (each is None or each <= MOST_A_RECORD)
        and (share is None or share <= MOST_OF_PROTON or row["kernel"] in ABOVE)
    )


if __name__ == "__main__":
    sys.exit(main())
