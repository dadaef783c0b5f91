"""The machine as a whole: operators in program order over channels, NPU and DRAM.

An operator starts when its operands exist and its unit is free. A group of weight products runs on every
channel (`channel.run_group`); vector operators on the NPU's special function unit; attention streams the
KV cache from DRAM through the array, head by head.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.channel import run_group
from tileprobe.targets.cambricon.engine.state import (
    BUSY_ARRAY,
    BUSY_DRAM,
    BUSY_SFU,
    T_ARRAY_NPU,
    T_DRAM,
    T_SFU,
    record,
)
from tileprobe.targets.jit import borrowing, inline


@borrowing
def run_operators(tables, k, s, tr):
    """Fill the times of each operator. Returns the number of an operator that cannot end, which is a fault of the
    engine, or -1.
    """
    free = s.free[0]
    for i in range(tables.operators.shape[0]):
        kind = tables.operators[i, p.KIND]
        if kind == p.WEIGHTS:
            if not run_weights(i, tables, k, s, free, tr):
                return i
        elif kind == p.VECTOR:
            run_vector(i, tables, free, tr)
        elif kind == p.EXCHANGE:
            run_exchange(i, tables, free)
        else:
            run_attention(i, tables, free, tr)
    return -1


@inline
def operands_exist(i, tables):
    """When the last operand of an operator does."""
    t = 0.0
    for d in range(p.DEP_0, p.DEP_3 + 1):
        if tables.operators[i, d] >= 0:
            t = max(t, tables.done_us[tables.operators[i, d]])
    return t


@inline
def run_weights(i, tables, k, s, free, tr):
    """Weight products on all channels, then what the NPU does with their sums. False when a channel cannot end."""
    t = max(operands_exist(i, tables), free.flash)
    free.products = t
    end = t
    for c in range(k.channels):
        channel_end = run_group(c, i, t, tables, k, s, tr)
        if channel_end < 0.0:
            return False
        end = max(end, channel_end)
    tail = tables.costs[i, p.TAIL_US]
    tables.busy_us[BUSY_ARRAY] += tables.costs[i, p.ARRAY_US]
    tables.busy_us[BUSY_SFU] += tail
    dram_us = tables.costs[i, p.DRAM_US]
    if dram_us > 0.0:  # weights that are kept in DRAM, beside those of the flash
        free.dram = max(free.dram, t) + dram_us
        tables.busy_us[BUSY_DRAM] += dram_us
        record(tr, T_DRAM, -1, 0, i, free.dram - dram_us, free.dram, 0.0)
        end = max(end, free.dram)
    end += tail
    if tail > 0.0:
        record(tr, T_SFU, -1, 0, i, end - tail, end, 0.0)
    free.sfu, free.flash = max(free.sfu, end), end + tables.costs[i, p.FLASH_US]
    tables.start_us[i], tables.done_us[i] = t, end
    return True


@inline
def run_vector(i, tables, free, tr):
    """An operator of the special function unit, with what it moves from or to DRAM."""
    t = operands_exist(i, tables)
    start = max(t, free.sfu)
    sfu_us, dram_us = tables.costs[i, p.SFU_US], tables.costs[i, p.DRAM_US]
    end = start + sfu_us
    if dram_us > 0.0:
        free.dram = max(free.dram, t) + dram_us
        tables.busy_us[BUSY_DRAM] += dram_us
        end = max(end, free.dram)
    tables.busy_us[BUSY_SFU] += sfu_us
    free.sfu = end
    record(tr, T_SFU, -1, 0, i, start, end, 0.0)
    tables.start_us[i], tables.done_us[i] = start, end


@inline
def run_exchange(i, tables, free):
    """What packages send each other: all do it at the same time, since all run alike."""
    t = operands_exist(i, tables)
    free.link = max(free.link, t) + tables.costs[i, p.LINK_US]
    tables.start_us[i], tables.done_us[i] = t, free.link


@inline
def run_attention(i, tables, free, tr):
    """Attention over the KV cache. The array takes the scores of head h, then the values of head h - 1, whose
    softmax ran meanwhile.
    """
    t = operands_exist(i, tables)
    heads = tables.operators[i, p.KV_HEADS]
    qk_us, pv_us = tables.costs[i, p.QK_ARRAY_US], tables.costs[i, p.PV_ARRAY_US]
    k_us, v_us = tables.costs[i, p.K_DRAM_US], tables.costs[i, p.V_DRAM_US]
    softmax_us, dram_us = tables.costs[i, p.SOFTMAX_US], tables.costs[i, p.DRAM_US]
    # keys do not depend on this token: they are loaded beside the products before
    ahead = min(tables.costs[i, p.AHEAD_US], max(t - max(free.dram, free.products), 0.0))
    free.dram = max(free.dram, t) - ahead + dram_us
    soft, v_there = t, t
    for h in range(heads + 1):
        v_before, soft_before = v_there, soft
        if h < heads:
            k_there = free.dram + k_us
            v_there = k_there + v_us
            # rows are multiplied as they come, so the last row of either data or work decides
            free.array = max(k_there, max(free.array, t) + qk_us)
            soft = max(free.array, free.sfu) + softmax_us
            free.sfu = soft
            record(tr, T_DRAM, -1, 0, i, free.dram, v_there, 0.0)
            record(tr, T_ARRAY_NPU, -1, 0, i, free.array - qk_us, free.array, 0.0)
            record(tr, T_SFU, -1, 0, i, soft - softmax_us, soft, 0.0)
            free.dram = v_there
        if h > 0:
            free.array = max(v_before, max(free.array, soft_before) + pv_us)
            record(tr, T_ARRAY_NPU, -1, 0, i, free.array - pv_us, free.array, 0.0)
    tables.busy_us[BUSY_ARRAY] += heads * (qk_us + pv_us)
    tables.busy_us[BUSY_SFU] += heads * softmax_us
    tables.busy_us[BUSY_DRAM] += heads * (k_us + v_us) + dram_us
    tables.start_us[i], tables.done_us[i] = t, max(free.array, free.dram)
