"""Static evidence of a kernel: what its machine code takes and is made of, plain, with probes, and with Proton.

In comes a kernel that Triton compiled for a GPU that need not be there; out go plain dictionaries, the JSON of
`tileprobe inspect`. Nothing is run: these are counts of instructions, not of time.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.gpu.bank_conflicts import MATRICES, bank_conflicts
from tileprobe.targets.gpu.compile import Probed, Site, bridged
from tileprobe.targets.gpu.idle import gone_with_their_loops
from tileprobe.targets.gpu.machine_code import Code, a_record_in_a_loop, lost_records
from tileprobe.targets.gpu.occupancy import amd_occupancy, occupancy
from tileprobe.targets.gpu.placed import Placed, placed
from tileprobe.targets.gpu.stages import pipeline_stages
from tileprobe.targets.gpu.units import access_bytes, unit_of

Side = dict[str, Any]
# Products of sm_100, whose machine instructions have no shape in their names: rows and depth, depth and columns.
_PRODUCT = re.compile(r"ttng\.tc_gen5_mma.*? : !ttg\.memdesc<(\d+)x(\d+)x\w+, .*?>, !ttg\.memdesc<\d+x(\d+)x")
_CONVERT = re.compile(r"ttg\.convert_layout")


def evidence(plain: Any, pipeline: str, *, proton: bool = True) -> dict[str, Any]:
    """What is known of a kernel: `{"name", "target", "plain", "probed", "proton"}`. `probed` and `proton` are None
    where nothing is found to probe, or where Proton cannot compile the kernel. Probes are as a session would have them:
    thinned where registers would spill or fewer warps would fit."""
    from tileprobe.targets.gpu.thinned import thinner, with_bearable_probes

    target = plain.metadata.target
    before = side(plain)
    made, thinned, said = with_bearable_probes(plain, pipeline)
    theirs = _proton(plain, thinner(pipeline, thinned)) if proton else None  # the same regions
    if proton and made is not None and theirs is None:
        said = [*said, "Proton's passes cannot compile this kernel for this machine: no comparison"]
    return {
        "name": plain.metadata.name,
        "target": f"{target.backend}:{target.arch}",
        "plain": before | _more(plain),
        "probed": None if made is None else _probed(made, before) | {"thinned": thinned},
        "proton": theirs,
        "notes": [] if made is None else [*made.notes, *said],
    }


def read_code(kernel: Any) -> Code:
    if "cubin" in kernel.asm:
        from tileprobe.targets.gpu.sass import read_cubin

        return read_cubin(kernel.asm["cubin"], kernel.asm["ptx"])
    from tileprobe.targets.gpu.amdgcn import read_amdgcn

    return read_amdgcn(kernel.asm["amdgcn"])


def side(kernel: Any) -> Side:
    """The figures that a kernel with and without probes is compared by."""
    code = read_code(kernel)
    metadata = kernel.metadata
    found = occupancy(
        str(metadata.target.arch),
        registers=code.registers,
        warps=metadata.num_warps,
        shared_bytes=metadata.shared,
        tensor_columns=getattr(metadata, "tmem_size", None) or 0,
    )
    if found is None:
        found = amd_occupancy(
            str(metadata.target.arch),
            waves=code.more.get("occupancy_warps", 0),
            warps=metadata.num_warps,
            shared_bytes=metadata.shared,
        )
    warps = code.more.get("occupancy_warps") if found is None else found.warps
    return {
        "instructions": len(code.work),
        "registers": code.registers,
        "spill_bytes": code.spill_bytes,
        "shared_bytes": metadata.shared,
        "occupancy_warps": warps,
        "occupancy_limiter": "" if found is None else found.limiter,
    }


def _more(kernel: Any) -> Side:
    """What the machine code and the last IR say beyond that, line by line."""
    code = read_code(kernel)
    lines: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    accesses: Counter[tuple[str, int, str, int]] = Counter()
    tensor_cores: Counter[str] = Counter()
    for op in code.work:
        unit = unit_of(op.opcode)
        lines[op.file, op.line][unit] += 1
        if (size := access_bytes(op.opcode)) is not None:
            accesses[op.file, op.line, op.opcode.split(".")[0], size] += 1
        if unit == "tensor core":
            tensor_cores[op.opcode] += 1
    ttgir = kernel.asm["ttgir"]
    tensor_cores.update(f"tc_gen5_mma {m}x{n}x{k}" for m, k, n in _PRODUCT.findall(ttgir))
    return {
        "mix": dict(sum(lines.values(), Counter()).most_common()),
        "lines": [
            {"file": file, "line": line, "instructions": sum(mix.values()), "mix": dict(mix.most_common())}
            for (file, line), mix in sorted(lines.items())
        ],
        "accesses": [
            {"file": file, "line": line, "opcode": name, "bytes": size, "count": count}
            for (file, line, name, size), count in sorted(accesses.items())
        ],
        "tensor_core": dict(tensor_cores),
        "bank_conflicts": bank_conflicts(
            kernel, matrices=any(op.opcode.startswith(MATRICES) for op in code.work)
        ),
        "layout_conversions": len(_CONVERT.findall(ttgir)),
        "pipeline_stages": pipeline_stages(bridged(kernel)),
    }


def _probed(made: Probed, before: Side) -> Side:
    code = read_code(made.kernel)
    looped = {slot.id for slot in made.layout.slots if slot.loops}
    found = side(made.kernel)
    moved = [each for each in _where_they_are(code, made) if each.moved > 0]
    return found | {
        "records": len(made.records),
        "own_instructions": len(code.own),
        "added_instructions": found["instructions"] - before["instructions"],
        "instructions_a_record_in_a_loop": a_record_in_a_loop(code, looped),
        "lost_records": lost_records(code, made.records, made.idle),
        "moved": [dict(row) for row in dict.fromkeys(_row(each) for each in moved)],
    }


def _row(each: Placed) -> tuple[tuple[str, Any], ...]:
    site = each.site
    return ("op", site.op), ("file", site.file), ("line", site.line), ("share", round(each.moved, 3))


def _proton(plain: Any, pipeline: str) -> Side | None:
    """Proton with the same regions, without what it has no records for: issue and wait."""
    from tileprobe.targets.gpu.proton import silent, with_proton

    try:
        with silent():  # MLIR writes the whole module of what it cannot compile
            made = with_proton(plain, synchronous(pipeline))
    except (RuntimeError, TileProbeError):
        return None
    if made is None:
        return None
    kernel, records = made
    found = side(kernel)
    return found | {"records": records}


def synchronous(pipeline: str) -> str:
    """The same pipeline without the ends of asynchronous operations."""
    return pipeline.replace("select{", "select{asynchronous=false ", 1)


def remarks(made: Probed) -> list[str]:
    """What the machine code of a kernel with probes says against its times, in sentences."""
    code = read_code(made.kernel)
    found = []
    lost = lost_records(code, made.records, made.idle)
    if lost:
        found.append(f"the compiler took out {len(lost)} of {len(made.records)} records")
    shares: dict[tuple[str, int], float] = {}  # of several ops on a line that of which most was moved
    for at in _where_they_are(code, made):
        if at.moved > 0:
            op, line = at.site.op, at.site.line
            shares[op, line] = max(at.moved, shares.get((op, line), 0.0))
    found += [
        f"line {line}: the compiler moved {share:.0%} of {op} out of its region"
        for (op, line), share in shares.items()
    ]
    return found


def _where_they_are(code: Code, made: Probed) -> list[Placed]:
    """The ops that are measured, but for those of loops that never run and are not in the machine code."""
    gone = gone_with_their_loops(made.idle, {op.slot for op in code.own if op.reads_clock})
    return placed(code, [site for site in made.sites if site.before not in gone])


def moved_regions(made: Probed) -> dict[int, float]:
    """By region the share of its instructions that the compiler put outside of its records. An op that is no region of
    its own only has remarks."""
    counted: dict[int, tuple[float, float]] = {}
    for at in _where_they_are(read_code(made.kernel), made):
        for region in _regions_at(made, at.site):
            inside, expected = counted.get(region, (0.0, 0.0))
            counted[region] = inside + min(at.inside, at.expected), expected + at.expected
    shares = {region: 1.0 - inside / expected for region, (inside, expected) in counted.items()}
    return {region: round(share, 3) for region, share in shares.items() if share >= 0.0005}


def _regions_at(made: Probed, site: Site) -> set[int]:
    """The regions that an op is: between the two records around it, or issued there."""
    return {
        span.region
        for span in made.layout.spans
        if (span.start == site.before and (span.stop == site.after or span.kind == "async"))
    }


def worse(before: Side, after: Side) -> list[str]:
    """What probes made worse, in sentences."""
    found = []
    if after["spill_bytes"] > before["spill_bytes"]:
        found.append(
            f"with probes {after['spill_bytes']} bytes of registers are spilled, without {before['spill_bytes']}: "
            "times are longer than they would be; probe less"
        )
    if (after["occupancy_warps"] or 0) < (before["occupancy_warps"] or 0):
        found.append(
            f"with probes a multiprocessor holds {after['occupancy_warps']} warps, without "
            f"{before['occupancy_warps']} ({after['occupancy_limiter'] or 'registers'}); probe less"
        )
    return found
