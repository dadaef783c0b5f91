"""How weights, activations and the KV cache are stored: `w8a8` and `w4a16`.

A precision and a machine say how many values a page holds and how wide a partial sum travels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import Machine


@dataclass(frozen=True)
class Precision:
    name: str
    weight_bits: int
    activation_bytes: int
    kv_bytes: int  # the KV cache keeps the activations' width
    tokens: int = 1  # that a page is multiplied by before the next one: a core holds their inputs at once

    @property
    def input_bytes(self) -> int:
        """Of one element of the vectors that a core takes."""
        return self.activation_bytes * self.tokens

    def together(self, tokens: int) -> Precision:
        return replace(self, tokens=tokens)

    def values_per_page(self, machine: Machine) -> int:
        return machine.flash.page_bytes * 8 // self.weight_bits

    def widest_row(self, machine: Machine) -> int:
        """Products that a partial sum adds up without overflow, whatever the values; 0 when not even one."""
        weight, activation = 2 ** (self.weight_bits - 1), 2 ** (8 * self.activation_bytes - 1) - 1
        return (2 ** (8 * self.partial_sum_bytes(machine) - 1) - 1) // (weight * activation)

    def partial_sum_bytes(self, machine: Machine) -> int:
        return getattr(machine.core, f"partial_sum_bytes_{self.name}")


PRECISIONS = {p.name: p for p in (Precision("w8a8", 8, 1, 1), Precision("w4a16", 4, 2, 2))}


def precision_of(name: str) -> Precision:
    if name not in PRECISIONS:
        raise TileProbeError(f"unknown weights {name!r}: expected {' or '.join(PRECISIONS)}")
    return PRECISIONS[name]
