"""The engine against a second, naive one on random small programs: the same end times, waits and slices.

All constants are multiples of 1/64 us, so that floating point is exact and ties are ties in both.
"""

import pytest
from cambricon_reference import Reference
from cambricon_tiny import program_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tileprobe.targets.cambricon.engine import state as s
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, PageMap, geometry_of
from tileprobe.targets.cambricon.tiling import Buffers

BYTE_US = 0.125
EXACT = {
    "channels": 1, "chips_per_channel": 1, "page_bytes": 64, "channel_gb_per_s": 0.008, "link_gb_per_s": 1.0,
    "command_us": 0.25, "slice_command_us": 0.125, "link_latency_us": 0.0, "spare_travels": True,
}  # fmt: skip


@st.composite
def cases(draw):
    mode = draw(st.sampled_from([SPLIT, SPLIT, FLASH_ONLY, NPU_ONLY]))
    machine = load_machine("cambricon:s").replace(
        **EXACT,
        dies_per_chip=draw(st.integers(1, 3)),
        planes_per_die=draw(st.sampled_from([2, 4])),
        spare_bytes=draw(st.sampled_from([8, 16])),
        slice_bytes=draw(st.sampled_from([8, 16, 24, 64])),
        read_us=draw(st.sampled_from([4.0, 16.0, 30.0])),
        page_us=draw(st.sampled_from([2.0, 16.0, 32.0])),
        register_copy_us=draw(st.sampled_from([0.0, 0.5])),
        sram_bytes=draw(st.sampled_from([128, 256, 1024])),
        prefetch=draw(st.booleans()),
    )
    matrices = []
    for _ in range(draw(st.integers(1, 4))):
        rows, cols = draw(st.integers(1, 70)), draw(st.integers(1, 20))
        chunks = -(-rows // 8)
        flash = {FLASH_ONLY: chunks, NPU_ONLY: 0}.get(mode)
        matrices.append(
            {
                "rows": rows,
                "cols": cols,
                "flash": draw(st.integers(0, chunks)) if flash is None else flash,
                "slots": draw(st.integers(1, 3)),
                "keep": draw(st.sampled_from([0, 0, 1])),
                "part": draw(st.sampled_from([3, 4, 8])),
                "first": draw(st.integers(0, 2)),
                "joins": draw(st.booleans()),  # the group of the matrix before
            }
        )
    use = draw(st.sampled_from([0.0, 1.0, 20.0]))
    return machine, mode, matrices, use, draw(st.booleans())


def grouped(matrices):
    groups = []
    for m in matrices:
        groups[-1].append(m) if groups and m["joins"] else groups.append([m])
    return groups


def placed(machine, mode, matrices):
    """The page map of each matrix, as if compiled: pages one behind the other."""
    g = geometry_of(machine, mode)
    maps, base, turn = [], 0, 0
    for m in matrices:
        one = PageMap(
            g, m["rows"], m["cols"], 8, 8, m["flash"], first_core=m["first"] % g.cores, compute_base=base,
            stream_first=turn,
        )  # fmt: skip
        maps.append(one)
        base, turn = base + one.compute_pages, turn + one.stream_count
    return maps


def with_engine(machine, mode, matrices, use, sliced):
    maps = placed(machine, mode, matrices)
    buffers = [Buffers(m["slots"], m["part"], m["keep"]) for m in matrices]
    program = program_of(maps, buffers, machine, [len(g) for g in grouped(matrices)], use, sliced)
    return launch(program, machine, maps[0].geometry)


def with_reference(machine, mode, matrices, use, sliced):
    g = geometry_of(machine, mode)
    groups, maps = [], iter(placed(machine, mode, matrices))
    for group in grouped(matrices):
        requests, stream = [], []
        for m, place in zip(group, maps):
            for j in range(place.col_requests):
                cols = min(8, m["cols"] - 8 * j)
                for i in range(place.row_requests):
                    pages = {}
                    for r in range(i * g.cores, min((i + 1) * g.cores, m["flash"])):
                        height = min(8, m["rows"] - 8 * r)
                        # one part a transfer, all but the last of one size
                        size = -(-8 // -(-8 // m["part"]))
                        parts = [min(size, height - k) for k in range(0, height, size)]
                        time = machine.core.page_us * cols / 64
                        plane = int(place.locate(8 * r, 8 * j).plane) % max(g.planes_per_core, 1)
                        core = (r + m["first"] % g.cores) % g.cores
                        pages[core] = plane, [(time * n, 3 * n) for n in parts]
                    requests.append((0 if m["keep"] and i else cols, m["slots"], pages))
            for r in range(m["flash"], place.row_chunks):
                for j in range(place.col_blocks):
                    at = place.locate(8 * r, 8 * j)
                    stream.append(((int(at.chip * g.dies + at.die), int(at.plane) - g.compute_planes), use))
        groups.append((requests, stream))
    const = {
        "planes": max(g.planes_per_core, 1), "read": machine.flash.read_us,
        "copy": machine.flash.register_copy_us, "prefetch": machine.flash.prefetch, "command": 0.25,
        "resume": 0.125, "byte": BYTE_US, "sliced": sliced, "slice": machine.flash.slice_bytes,
        "page_bytes": 64 + machine.flash.spare_bytes, "window": max(1, machine.npu.sram_bytes // 128),
    }  # fmt: skip
    keys = [(d, plane) for d in range(g.dies_per_channel) for plane in range(g.stream_planes)]
    reference = Reference(groups, g.cores, keys, const)
    return reference, reference.run()


def matrix(rows, slots, first=0, joins=True):
    return {
        "rows": rows,
        "cols": 1,
        "flash": 1,
        "slots": slots,
        "keep": 0,
        "part": 3,
        "first": first,
        "joins": joins,
    }


# a request with one input slot behind one with two, while the first of all still computes
SLOTS_DIFFER = (
    load_machine("cambricon:s").replace(
        **EXACT, dies_per_chip=2, planes_per_die=2, spare_bytes=8, slice_bytes=8, read_us=4.0, page_us=32.0,
        sram_bytes=128, prefetch=False,
    ),
    FLASH_ONLY, [matrix(7, 1, joins=False), matrix(1, 2, first=1), matrix(1, 1)], 0.0, False,
)  # fmt: skip


@given(cases())
@example(SLOTS_DIFFER)
@settings(max_examples=150, deadline=None)
def test_engine_and_reference_agree(case):
    run = with_engine(*case)
    reference, ends = with_reference(*case)
    assert run.done_us.tolist() == pytest.approx(ends, abs=1e-9)
    stats = run.state.stats.sum(axis=0)
    assert stats[s.WAIT_RC] == pytest.approx(reference.wait, abs=1e-6)
    assert stats[s.N_SLICES] == reference.slices
    assert stats[s.N_INPUTS] == sum(1 for r in reference.requests if r["bytes"])
