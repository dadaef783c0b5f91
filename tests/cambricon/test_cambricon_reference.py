"""The engine against a second, naive one on random small programs: the same end times, waits and slices.

All constants are multiples of 1/64 us, so that floating point is exact and ties are ties in both.
"""

import numpy as np
import pytest
from cambricon_reference import Reference
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine import state as s
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, PageMap, geometry_of

BYTE_US = 0.125
EXACT = {
    "channels": 1, "chips_per_channel": 1, "page_bytes": 64, "channel_gb_per_s": 0.008, "link_gb_per_s": 1.0,
    "command_us": 0.25, "slice_command_us": 0.125, "link_latency_us": 0.0,
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


def with_engine(machine, mode, matrices, use, sliced):
    geometry = geometry_of(machine, mode)
    rows = np.zeros((len(matrices), p.N_MATRIX_COLUMNS), np.int64)
    for row, m in zip(rows, matrices):
        row[p.ROWS], row[p.COLS], row[p.BLOCK_ROWS], row[p.BLOCK_COLS] = m["rows"], m["cols"], 8, 8
        row[p.FLASH_CHUNKS], row[p.FIRST_CORE], row[p.FIRST_DIE] = m["flash"], m["first"] % geometry.cores, 0
        row[p.INPUT_BYTES], row[p.SUM_BYTES], row[p.PART_ROWS] = 8, 3, m["part"]
        row[p.INPUT_SLOTS], row[p.KEEP_INPUT], row[p.VALUES_PER_PAGE] = m["slots"], m["keep"], 64
    groups = grouped(matrices)
    operators = np.full((len(groups), p.N_OPERATOR_COLUMNS), -1, np.int64)
    ends = np.cumsum([len(g) for g in groups])
    operators[:, p.KIND], operators[:, p.END_MATRIX] = p.WEIGHTS, ends
    operators[:, p.FIRST_MATRIX] = ends - [len(g) for g in groups]
    operators[:, p.DEP_0] = np.arange(len(groups)) - 1
    names = [str(n) for n in range(len(groups))]
    costs = np.zeros((len(groups), p.N_COST_COLUMNS))
    uses = np.full(len(matrices), use)
    program = p.Program(names, names, operators, costs, rows, names, uses, sliced)
    return launch(program, machine, geometry)


def with_reference(machine, mode, matrices, use, sliced):
    g = geometry_of(machine, mode)
    groups = []
    for group in grouped(matrices):
        requests, stream = [], []
        for m in group:
            place = PageMap(g, m["rows"], m["cols"], 8, 8, m["flash"], first_core=m["first"] % g.cores)
            for j in range(place.col_requests):
                cols = min(8, m["cols"] - 8 * j)
                for i in range(place.row_requests):
                    pages = {}
                    for r in range(i * g.cores, min((i + 1) * g.cores, m["flash"])):
                        height = min(8, m["rows"] - 8 * r)
                        parts = [min(m["part"], height - k) for k in range(0, height, m["part"])]
                        time = machine.core.page_us * cols / 64
                        pages[(r + m["first"] % g.cores) % g.cores] = [(time * n, 3 * n) for n in parts]
                    requests.append((0 if m["keep"] and i else cols, m["slots"], pages))
                for n in range(place.stream_chunks):
                    local = j * place.stream_rounds + n // g.dies_per_channel
                    stream.append(((n % g.dies_per_channel, local % g.stream_planes), use))
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


@given(cases())
@settings(max_examples=150, deadline=None)
def test_engine_and_reference_agree(case):
    run = with_engine(*case)
    reference, ends = with_reference(*case)
    assert run.done_us.tolist() == pytest.approx(ends, abs=1e-9)
    stats = run.state.stats.sum(axis=0)
    assert stats[s.WAIT_RC] == pytest.approx(reference.wait, abs=1e-6)
    assert stats[s.N_SLICES] == reference.slices
    assert stats[s.N_INPUTS] == sum(1 for r in reference.requests if r["bytes"])
