"""A seed to a program. Importing this brings in every production and action."""

from __future__ import annotations

from dataclasses import replace

from fuzz import (
    generate_control,
    generate_matmul,
    generate_memory,
    generate_patterns,
    generate_tiles,
    generate_values,
)
from fuzz.generate_control import compute, show, steps
from fuzz.generator import Generator
from fuzz.program import Program, Tensor

# Each registers what it can make.
SOURCES = (
    generate_values,
    generate_tiles,
    generate_memory,
    generate_control,
    generate_patterns,
    generate_matmul,
)


def generate(seed: int) -> Program:
    """The kernel of a seed."""
    g = Generator(seed)
    # Most are small: they take a third of the time, and what is wrong mostly shows in few statements.
    small = g.chance(0.6)
    for _ in range(1 if small else g.random.randint(1, 3)):
        compute(g)
    steps(g, 1, 2 if small else 5)
    for variable in [v for v in g.scope if not v.dtype.startswith("*")]:
        if g.chance(0.8):
            show(g, variable)
    features = (*g.productions, *g.actions)
    grid = g.pick([1, 1, 1, 2, 3])
    if g.chance(0.05):
        _alias(g)
    return Program(seed, grid, tuple(g.arguments), tuple(g.block), tuple(g.functions), features)


def _alias(g: Generator) -> None:
    """Two arguments that are one tensor."""
    tensors = [a for a in g.arguments if isinstance(a, Tensor) and a.name.startswith("p")]
    pairs = [(a, b) for a in tensors for b in tensors if a is not b and _same_kind(a, b)]
    if pairs:
        first, second = sorted(g.pick(pairs), key=g.arguments.index)
        size = max(first.size, second.size)
        made = {
            first.name: replace(first, size=size),
            second.name: replace(second, size=size, same_as=first.name),
        }
        g.arguments = [made.get(a.name, a) for a in g.arguments]


def _same_kind(a: Tensor, b: Tensor) -> bool:
    return (a.dtype, a.values, a.apart) == (b.dtype, b.values, b.apart) and a.size % 16 == b.size % 16
