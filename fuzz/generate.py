"""A seed to a program. Importing this brings in every production and action."""

from __future__ import annotations

from fuzz import generate_control, generate_memory, generate_tiles, generate_values
from fuzz.generate_control import compute, show, steps
from fuzz.generator import Generator
from fuzz.program import Program

# Each registers what it can make.
SOURCES = (generate_values, generate_tiles, generate_memory, generate_control)


def generate(seed: int) -> Program:
    """The kernel of a seed."""
    g = Generator(seed)
    for _ in range(g.random.randint(1, 3)):
        compute(g)
    steps(g, 1, 7)
    for variable in [v for v in g.scope if not v.dtype.startswith("*")]:
        if g.chance(0.8):
            show(g, variable)
    features = (*g.productions, *g.actions)
    grid = g.pick([1, 1, 1, 2, 3])
    return Program(seed, grid, tuple(g.arguments), tuple(g.block), tuple(g.functions), features)
