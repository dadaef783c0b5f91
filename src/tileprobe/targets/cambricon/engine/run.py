"""The machine as a whole: operators in program order over channels, NPU and DRAM.

An operator starts when its operands exist and its unit is free. A group of weight products runs on every
channel (`channel.run_group`); vector operators on the NPU's special function unit; attention streams the
KV cache from DRAM through the array, head by head.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.channel import run_group
from tileprobe.targets.cambricon.engine.jit import jit
from tileprobe.targets.cambricon.engine.state import T_ARRAY_NPU, T_DRAM, T_SFU, record

KIND, FIRST_MATRIX, END_MATRIX, DEP_0, DEP_3, KV_HEADS = (
    p.KIND,
    p.FIRST_MATRIX,
    p.END_MATRIX,
    p.DEP_0,
    p.DEP_3,
    p.KV_HEADS,
)
WEIGHTS, VECTOR, ATTENTION = p.WEIGHTS, p.VECTOR, p.ATTENTION
SFU_US, DRAM_US, K_DRAM_US, V_DRAM_US = p.SFU_US, p.DRAM_US, p.K_DRAM_US, p.V_DRAM_US
QK_ARRAY_US, PV_ARRAY_US, SOFTMAX_US, TAIL_US, ARRAY_US = (
    p.QK_ARRAY_US,
    p.PV_ARRAY_US,
    p.SOFTMAX_US,
    p.TAIL_US,
    p.ARRAY_US,
)


@jit
def run_operators(ops, costs, mats, use_us, k, s, start, done, busy, tracing, tr):
    """Fill `start` and `done` of each operator; `busy` is the NPU array's, the SFU's and the DRAM's time
    of work.
    """
    array_free, sfu_free, dram_free = 0.0, 0.0, 0.0
    flash_free = 0.0
    for i in range(ops.shape[0]):
        t = 0.0
        for d in range(DEP_0, DEP_3 + 1):
            if ops[i, d] >= 0:
                t = max(t, done[ops[i, d]])
        kind = ops[i, KIND]
        if kind == WEIGHTS:
            t = max(t, flash_free)
            start[i] = t
            end = t
            for c in range(k.sizes[0]):
                channel_end = run_group(
                    c, i, t, mats, ops[i, FIRST_MATRIX], ops[i, END_MATRIX], use_us, k, s, tracing, tr
                )
                if channel_end < 0.0:
                    return i
                end = max(end, channel_end)
            busy[0] += costs[i, ARRAY_US]
            end += costs[i, TAIL_US]
            if tracing and costs[i, TAIL_US] > 0.0:
                record(tr, T_SFU, -1, 0, i, end - costs[i, TAIL_US], end, 0.0)
            busy[1] += costs[i, TAIL_US]
            sfu_free = max(sfu_free, end)
            flash_free = end
        elif kind == VECTOR:
            t0 = max(t, sfu_free)
            start[i] = t0
            end = t0 + costs[i, SFU_US]
            if costs[i, DRAM_US] > 0.0:
                dram_free = max(dram_free, t) + costs[i, DRAM_US]
                busy[2] += costs[i, DRAM_US]
                end = max(end, dram_free)
            busy[1] += costs[i, SFU_US]
            sfu_free = end
            if tracing:
                record(tr, T_SFU, -1, 0, i, t0, end, 0.0)
        else:
            # the cache does not depend on the query, but the DRAM serves operators in order
            start[i] = t
            end = t
            dram_free = max(dram_free, t) + costs[i, DRAM_US]
            soft, v_there = t, t
            for h in range(ops[i, KV_HEADS] + 1):
                # the array takes the scores of head h, then the values of head h - 1, whose softmax ran
                # meanwhile
                v_before, soft_before = v_there, soft
                if h < ops[i, KV_HEADS]:
                    k_there = dram_free + costs[i, K_DRAM_US]
                    v_there = k_there + costs[i, V_DRAM_US]
                    # rows are multiplied as they come, so the last row of either data or work decides
                    array_free = max(k_there, max(array_free, t) + costs[i, QK_ARRAY_US])
                    soft = max(array_free, sfu_free) + costs[i, SOFTMAX_US]
                    sfu_free = soft
                    if tracing:
                        record(tr, T_DRAM, -1, 0, i, dram_free, v_there, 0.0)
                        record(tr, T_ARRAY_NPU, -1, 0, i, array_free - costs[i, QK_ARRAY_US], array_free, 0.0)
                        record(tr, T_SFU, -1, 0, i, soft - costs[i, SOFTMAX_US], soft, 0.0)
                    dram_free = v_there
                if h > 0:
                    array_free = max(v_before, max(array_free, soft_before) + costs[i, PV_ARRAY_US])
                    if tracing:
                        record(tr, T_ARRAY_NPU, -1, 0, i, array_free - costs[i, PV_ARRAY_US], array_free, 0.0)
            heads = ops[i, KV_HEADS]
            busy[0] += heads * (costs[i, QK_ARRAY_US] + costs[i, PV_ARRAY_US])
            busy[1] += heads * costs[i, SOFTMAX_US]
            busy[2] += heads * (costs[i, K_DRAM_US] + costs[i, V_DRAM_US]) + costs[i, DRAM_US]
            end = max(array_free, dram_free)
        done[i] = end
    return -1
