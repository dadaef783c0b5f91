"""hint-memory: loads and stores say to caches how soon what they touch is wanted again. Nothing else changes.

In comes Triton's IR; out goes the same with eviction priorities, as `eviction_policy=` of `tl.load` and `tl.store`
would write them. Those with a `cache_modifier=` stay as they are: PTX takes one of both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import attr, op_name
from tileprobe.ir.locations import user_frames
from tileprobe.ir.reader import parse_attribute

EVICTED = {"normally": "evict_normal", "first": "evict_first", "last": "evict_last"}
STREAMED = "streamed"
_MODIFIER = re.compile(r"cache_modifier = (\w+)")
_OPS = {"load": "tt.load", "store": "tt.store"}


@dataclass(frozen=True)
class HintMemoryPass(ModulePass):
    """`what` is load or store; of those on a `line` of the kernel's source (0: of all) what they touch is `evicted`
    first, last, or normally; of stores it may be `streamed`, which is `cache_modifier=".cs"`: not wanted again."""

    name = "hint-memory"

    what: str = "load"
    line: int = 0
    evicted: str = "first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.what not in _OPS:
            raise TileProbeError(f"hints are for {' or '.join(_OPS)}, not for {self.what!r}")
        streamed = self.evicted == STREAMED and self.what == "store"
        if self.evicted not in EVICTED and not streamed:
            raise TileProbeError(
                f"what is touched can be evicted {', '.join(EVICTED)}, or of stores {STREAMED}, not {self.evicted!r}"
            )
        modifier, eviction = ("cs", "evict_normal") if streamed else ("none", EVICTED[self.evicted])
        for inner in op.walk():
            if op_name(inner) != _OPS[self.what]:
                continue
            level = _MODIFIER.search(str(attr(inner, "cachePolicy") or ""))
            lines = [line for _, line in user_frames(inner.location)]
            if (level is None or level[1] == "none") and (not self.line or self.line in lines):
                policy = f"#tt.cache_policy<cache_modifier = {modifier}, eviction_policy = {eviction}>"
                inner.properties["cachePolicy"] = parse_attribute(policy)
