"""What a flash that ages does beside the commands of a step: pages read again, pages rewritten, blocks erased.

A plane is busy with it as with any read; commands wait for the bus of their channel, and take it before the next
transfer. With `ages` off nothing here changes a time, not in its last bit.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.draws import retries_of
from tileprobe.targets.cambricon.engine import state as st
from tileprobe.targets.cambricon.engine.state import record
from tileprobe.targets.jit import inline


@inline
def retries_us(ch, die, number, k, s):
    """How long a page is read again. `number` is that of the page on its die; the chances go by that on the device, as
    the functional model counts.
    """
    if not k.ages:
        return 0.0
    c = ch.number
    plane = (c * k.dies + die) * k.planes + number % k.planes
    again = retries_of(s.fails, k.seed, plane * k.pages_per_plane + number // k.planes)
    if again == s.fails.shape[0]:
        again -= 1
        s.upkeep[c, st.N_LOST] += 1
    s.upkeep[c, st.N_RETRIES] += again
    s.upkeep[c, st.UPKEEP_US] += again * k.read_us
    ch.owed_us += again * k.command_us
    return again * k.read_us


@inline
def rewrite_us(ch, plane, die, begin, k, s, tr):
    """How long a plane is busy with pages and blocks that are due, after one page more was read on it."""
    if k.rewrites == 0.0:
        return 0.0
    plane.due += k.rewrites
    count = int(plane.due)
    if count == 0:
        return 0.0
    c = ch.number
    plane.due -= count
    plane.rewritten += count
    erased = plane.rewritten // k.pages_per_block
    plane.rewritten -= erased * k.pages_per_block
    busy = count * k.rewrite_us + erased * k.erase_us
    s.upkeep[c, st.N_REWRITES] += count
    s.upkeep[c, st.N_ERASES] += erased
    s.upkeep[c, st.UPKEEP_US] += busy
    ch.owed_us += count * k.rewrite_bus_us + erased * k.command_us
    record(tr, st.T_REWRITE, c, die, ch.op, begin, begin + busy, count)
    return busy


@inline
def pay_commands(ch, s, tr):
    """Commands that wait take the bus."""
    if ch.owed_us > 0.0:
        record(tr, st.T_UPKEEP, ch.number, -1, ch.op, ch.bus, ch.bus + ch.owed_us, 0)
        s.stats[ch.number, st.BUSY_COMMAND] += ch.owed_us
        ch.bus += ch.owed_us
        ch.owed_us = 0.0
