"""What loads and stores say to caches: priorities of eviction on a simulated A100, and experiments with them."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.passes.hint_memory import HintMemoryPass
from tileprobe.session.advising import HELPS, advise
from tileprobe.session.relaunching import relaunching
from tileprobe.targets.catalog import find

BLOCK, STEPS = 32768, 6  # a tile of 128 KB: two of them do not fit into L1


@triton.jit
def again(x, y, out, n, stay, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(n):
        total += tl.load(x + step * stay + i)  # the same in every step
        total += tl.load(y + step * BLOCK + i)  # once
    tl.store(out + i, total)


@triton.jit
def levels(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.load(x + i, cache_modifier=".cg") + tl.load(x + BLOCK + i, eviction_policy="evict_last")
    tl.store(out + i, total + tl.load(x + 2 * BLOCK + i), eviction_policy="evict_first")


def line_of(words):
    return again.starting_line_number + next(n for n, text in enumerate(again.raw_src) if words in text)


KEPT, ONCE = (line_of(f"tl.load({name}") for name in "xy")


def asked(question):
    x, y, out = (tileprobe.array(np.ones(n * BLOCK, np.float32)) for n in (1, STEPS, 1))
    found = []
    with tileprobe.use("sim:a100", timed=True, check=False):
        target = find("sim:a100")[0]
        with relaunching(lambda one: found.append(question(one, target))):
            again[(1,)](x, y, out, STEPS, 0, BLOCK=BLOCK, num_warps=16)
    assert (out.numpy() == 2 * STEPS).all()
    return found[0]


def took(one, target, *edits):
    one.restore()
    with target.running_on(None, 1.0):
        return target.measured(lambda: one.run(edit=",".join(edits)))


def test_what_goes_last_stays_and_what_goes_first_makes_room():
    def question(one, target):
        hints = {
            "none": (),
            "kept": (f"hint-memory{{line={KEPT} evicted=last}}",),
            "once": (f"hint-memory{{line={ONCE} evicted=first}}",),
            "wrong": (f"hint-memory{{line={ONCE} evicted=last}}",),
            "stored": ("hint-memory{what=store}",),
        }
        return {name: took(one, target, *edits) for name, edits in hints.items()}

    ns = asked(question)
    assert ns["kept"] < 0.87 * ns["none"] and ns["once"] < 0.87 * ns["none"]
    assert ns["wrong"] > ns["none"] and ns["stored"] == pytest.approx(ns["none"], rel=0.01)


def test_advice_finds_it_and_says_what_to_write():
    found = asked(lambda one, target: advise(one, target, 300.0, lambda _: None))
    kept, once = (f"eviction of what line {line} reads" for line in (KEPT, ONCE))
    rows = {tuple(row.changes.items()): row for row in found.outcomes if len(row.changes) == 1}
    for changes in (((kept, "last"),), ((once, "first"),)):
        assert rows[changes].verdict == HELPS and rows[changes].gain > 0.13
    assert f"tl.load of line {KEPT}" in rows[((kept, "last"),)].how
    assert rows[((kept, "first"),)].verdict != HELPS


def ttir(edit):
    texts = []
    x, out = tileprobe.array(np.ones(768, np.float32)), tileprobe.array(np.ones(256, np.float32))
    with tileprobe.use("sim:a100"), relaunching(lambda one: texts.append(one.run(edit=edit).asm["ttir"])):
        levels[(1,)](x, out, BLOCK=256)
    return [line for line in texts[0].splitlines() if "tt.load" in line or "tt.store" in line]


def test_hints_leave_levels_of_caches_and_other_operations_alone():
    plain, first = ttir(""), ttir("hint-memory{what=load evicted=first}")
    assert len(plain) == len(first) == 4 and plain[3].split(" loc")[0] == first[3].split(" loc")[0]
    assert all("evict_first" in line for line in first[1:3])
    assert "cache_modifier = cg" in plain[0] and first[0].split(" loc")[0] == plain[0].split(" loc")[0]
    assert all("evict_first" not in line for line in ttir("hint-memory{what=store evicted=normally}"))
    nothing = ttir("hint-memory{what=load line=1 evicted=first}")
    assert [line.split(" loc")[0] for line in nothing] == [line.split(" loc")[0] for line in plain]


@pytest.mark.parametrize(
    ("options", "words"), [({"what": "atomic"}, "load or store"), ({"evicted": "never"}, "normally")]
)
def test_wrong_options_are_named(options, words):
    from xdsl.dialects.builtin import ModuleOp

    with pytest.raises(TileProbeError, match=words):
        HintMemoryPass(**options).apply(None, ModuleOp([]))
