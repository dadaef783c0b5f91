"""The state of one generation: the random source, names in scope, memory, and the choice of productions.

Productions (functions that make an expression of a wanted type and shape) and actions (functions that add
statements) live in the `generate_*` files and register here. Each seed switches a random subset of them on:
kernels of few kinds of things go deeper than kernels of everything.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuzz import ranges
from fuzz.case import initial_bounds
from fuzz.ops import make
from fuzz.program import Assign, Expr, Function, Range, Scalar, Shape, Statement, Tensor
from fuzz.types import ARITHMETIC, FLOATS, INTEGERS, TYPES

MAX_ELEMENTS = 1024


@dataclass(frozen=True)
class Variable:
    name: str
    dtype: str
    shape: Shape
    bounds: Range  # what every value assigned to it keeps to
    fixed: bool = False  # counters and arguments are not assigned again


Production = Callable[["Generator", str, Shape, int], "Expr | None"]
Action = Callable[["Generator"], None]
PRODUCTIONS: dict[str, tuple[float, Production]] = {}
ACTIONS: dict[str, tuple[float, Action]] = {}


def production(weight: float) -> Callable[[Production], Production]:
    def register(function: Production) -> Production:
        PRODUCTIONS[function.__name__] = (weight, function)
        return function

    return register


def action(weight: float) -> Callable[[Action], Action]:
    def register(function: Action) -> Action:
        ACTIONS[function.__name__] = (weight, function)
        return function

    return register


class Generator:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.arguments: list[Tensor | Scalar] = []
        self.functions: list[Function] = []
        self.block: list[Statement] = []
        self.scope: list[Variable] = []
        self.loops = 0  # loops around the current place
        self.nesting = 0  # loops and branches around it
        self.pure = False  # inside of a function: no memory, no names but its own
        self.leaves = 0  # leaves around the current place: a load needs an index, which needs leaves
        self._names: dict[str, int] = {}
        self._swarm()

    def _swarm(self) -> None:
        share = self.random.choice([0.25, 0.5, 0.75, 1.0])
        self.productions = {n: e for n, e in PRODUCTIONS.items() if self.chance(share)}
        self.actions = {n: e for n, e in ACTIONS.items() if self.chance(share)}
        self.floats = self.pick(["float32", "float32", "float16", "float64", "bfloat16"])
        # Whether indices and masks may wrap round in narrow and unsigned types.
        self.wraps = self.chance(0.5)
        # Few types and few shapes: values that fit together are used together.
        self.integers = self.random.sample(INTEGERS, self.random.randint(1, 3))
        if not self.wraps:
            self.integers = ["int32", "int64"]
        self.types = ["int32", "float32", *self.integers, self.floats]
        # Whether floats may be infinite or not a number.
        self.specials = self.chance(0.15)
        extents = [1, 2, 4, 8, 16, 16, 32, 64]
        self.extents = [self.pick(extents) for _ in range(self.random.randint(1, 3))]
        self.depth = self.random.randint(1, 4)
        self.shapes: list[Shape] = []
        self.shapes = [self.shape() for _ in range(self.random.randint(2, 4))]

    # Chance
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, items: Any) -> Any:
        return self.random.choice(list(items))

    def weighted(self, table: dict[str, tuple[float, Any]]) -> Any:
        weights = [weight for weight, _ in table.values()]
        return self.random.choices([f for _, f in table.values()], weights)[0]

    def shape(self, ranks: tuple[int, ...] = (0, 1, 1, 1, 2, 2, 2, 2, 3, 4)) -> Shape:
        known = [s for s in self.shapes if len(s) in ranks]
        if known and self.chance(0.75):
            return self.pick(known)
        rank = self.pick(ranks)
        if rank == 1 and self.chance(0.2):
            return (self.pick([128, 256, 512]),)
        shape = [self.pick(self.extents) for _ in range(rank)]
        while _elements(shape) > (MAX_ELEMENTS if rank < 3 else 256):
            largest = shape.index(max(shape))
            shape[largest] //= 2
        return tuple(shape)

    # Names and memory
    def fresh(self, prefix: str) -> str:
        number = self._names.get(prefix, 0)
        self._names[prefix] = number + 1
        return f"{prefix}{number}"

    def emit(self, statement: Statement) -> None:
        self.block.append(statement)

    def declare(self, value: Expr, bounds: Range = None, prefix: str = "v") -> Variable:
        """A new variable that holds a value."""
        name = self.fresh(prefix)
        variable = Variable(name, value.dtype, value.shape, bounds if bounds is not None else value.range)
        self.emit(Assign((name,), value))
        self.scope.append(variable)
        return variable

    def read(self, variable: Variable) -> Expr:
        return make(
            "var",
            name=variable.name,
            dtype=variable.dtype,
            shape=variable.shape,
            range=variable.bounds,
        )

    def find(self, dtype: str, shape: Shape | None = None) -> list[Variable]:
        return [v for v in self.scope if v.dtype == dtype and shape in (None, v.shape)]

    def scalar(self) -> Expr:
        """An int32 argument."""
        scalars = [a for a in self.arguments if isinstance(a, Scalar)]
        if not scalars or self.chance(0.3):
            value = self.pick([0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 40, 100, -1])
            scalars = [Scalar(self.fresh("n"), value)]
            self.arguments += scalars
        chosen = self.pick(scalars)
        return make("var", name=chosen.name, dtype="int32", shape=(), range=(chosen.value, chosen.value))

    def tensor(self, dtype: str, size: int, values: str | None = None, apart: bool = True) -> Expr:
        """A pointer to memory of at least `size` elements, new or shared with what was there before."""
        known = [
            a for a in self.arguments
            if isinstance(a, Tensor) and a.dtype == dtype and a.size >= size and a.apart >= apart
            and values in (None, a.values) and not a.name.startswith("o")
        ]  # fmt: skip
        if known and self.chance(0.7):
            tensor = self.pick(known)
        else:
            kinds = ["small", "small", "any"] if dtype in _ANY else ["small"]
            if self.specials and dtype in FLOATS:
                kinds = ["any", "special"]
            kind = values or self.pick(kinds)
            room = size + self.pick([0, 0, 1, 3, 8, 16])
            tensor = Tensor(self.fresh("p"), dtype, room, kind, initial_bounds(kind, dtype, room), apart)
            self.arguments.append(tensor)
        return self.pointer(tensor)

    def pointer(self, tensor: Tensor) -> Expr:
        return make(
            "var",
            name=tensor.name,
            dtype="*" + tensor.dtype,
            shape=(),
            range=(0, tensor.size - 1),
            bounds=tensor.bounds,
        )

    def aligned(self, dtype: str, size: int) -> Expr:
        """Memory that begins at a multiple of 16 bytes, in every program; `size` is a multiple of 16."""
        values = self.pick(["small", "any"])
        tensor = Tensor(self.fresh("p"), dtype, size, values, initial_bounds(values, dtype, size), True)
        self.arguments.append(tensor)
        return self.pointer(tensor)

    def output(self, dtype: str, size: int, ulps: int = 0) -> Expr:
        """Memory that only one statement writes."""
        tensor = Tensor(self.fresh("o"), dtype, size, "zero", ranges.everything(dtype), True, ulps=ulps)
        self.arguments.append(tensor)
        return self.pointer(tensor)

    # Expressions
    def value(self, dtype: str, shape: Shape, depth: int) -> Expr:
        """Any expression of a type and shape."""
        for _ in range(4):
            if depth <= 0 or not self.productions or self.chance(0.15):
                break
            made = self.weighted(self.productions)(self, dtype, shape, depth - 1)
            if made is not None:
                assert made.dtype == dtype and made.shape == shape, (
                    made.op,
                    made.dtype,
                    made.shape,
                    dtype,
                    shape,
                )
                return made
        return self.leaf(dtype, shape)

    def leaf(self, dtype: str, shape: Shape) -> Expr:
        from fuzz.generate_values import leaf

        self.leaves += 1
        made = leaf(self, dtype, shape)
        self.leaves -= 1
        return made

    def cost(self, shape: Shape, limit: int = MAX_ELEMENTS) -> bool:
        return _elements(shape) <= limit

    def nested(self, build: Callable[[], None]) -> tuple[Statement, ...]:
        """The statements that `build` adds, and none of the names it makes."""
        outer, names = self.block, list(self.scope)
        self.block = []
        self.nesting += 1
        build()
        self.nesting -= 1
        inner, self.block = self.block, outer
        self.scope = names
        return tuple(inner)


_ANY = {name for name, t in TYPES.items() if t.kind in "iub" or name in ARITHMETIC}


def _elements(shape: Any) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
