"""Where keys and values lie: the newest tokens in DRAM as far as it has room, the older ones in flash.

In: a model, a machine and options (`kv`: `dram` has to fit, `spill` puts what does not fit into flash, `flash` keeps
only a page for each layer in DRAM). Out: a `CachePlan`: tokens of each layer in flash. A page holds whole tokens of one
layer; it is collected in DRAM and written once.
"""

from __future__ import annotations

from dataclasses import dataclass

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model

PLACES = ("dram", "spill", "flash")


@dataclass(frozen=True)
class Paged:
    """Tokens of one layer on pages: how many one holds, and how many pages one takes."""

    tokens_per_page: int
    pages_per_token: int  # where a token does not fit a page

    @staticmethod
    def of(token_bytes: int, page_bytes: int) -> Paged:
        return Paged(max(page_bytes // token_bytes, 1), -(-token_bytes // page_bytes))

    def pages(self, tokens: int) -> int:
        return -(-tokens // self.tokens_per_page) * self.pages_per_token

    @property
    def written_per_token(self) -> float:
        return self.pages_per_token / self.tokens_per_page


@dataclass(frozen=True)
class CachePlan:
    in_flash: tuple[int, ...]  # tokens of each layer
    dram_bytes: int
    token_bytes: int  # of one layer

    @property
    def spilled(self) -> int:
        """Layers with tokens in flash."""
        return sum(n > 0 for n in self.in_flash)


def plan_cache(
    model: Model, machine: Machine, context: int, kv_bytes: int, where: str, taken: int = 0
) -> CachePlan:
    """The newest tokens of every layer in DRAM, as many as fit what is `taken` by others leaves of it."""
    if where not in PLACES:
        raise TileProbeError(f"--kv is {', '.join(PLACES)}, not {where!r}")
    each = model.cached_values * kv_bytes
    seen = [min(context, model.window(n) or context) for n in range(model.layers)]
    room = machine.dram.capacity_bytes - taken
    paged = Paged.of(each, machine.flash.page_bytes)
    least = paged.tokens_per_page  # of each layer in DRAM: the page that is being filled

    def needed(newest: int) -> int:
        return each * sum(min(n, newest) for n in seen)

    if where == "dram" or (where == "spill" and needed(context) <= room):
        kept = context
    else:
        low, high = least, max(least, context) + 1
        if needed(least) > room:
            raise TileProbeError(
                f"{machine.name}: not even one page of keys and values a layer fits the {room / 1e9:.2f} GB of DRAM"
            )
        while where == "spill" and high - low > 1:  # the most that fits
            middle = (low + high) // 2
            low, high = (middle, high) if needed(middle) <= room else (low, middle)
        kept = low
    return CachePlan(tuple(max(n - kept, 0) for n in seen), needed(kept), each)
