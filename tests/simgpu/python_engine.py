"""Families of the engine run by Python in place of compiled code, as they are written or with one place changed.

Their modules are loaded once more under another name, with memory that is reached through ctypes and only where the
case has memory. `places` are the changes that can be made in a module, `changed` is the module with one of them.
"""

from __future__ import annotations

import ast
import copy
import ctypes
import importlib
import importlib.abc
import importlib.util
import math
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from exact_floats import F32, write
from family_machine import LOOP

from tileprobe.targets.simgpu.engine import lanes_address, lanes_matrix, layout, numbers, vectors

FOLDER = Path(vectors.__file__).parent
NAME, REAL = "python_families", "tileprobe.targets.simgpu.engine"
FAMILIES = (
    "atomics", "bulk", "clusters", "control", "copies", "exchange", "generic", "groups", "mbarriers", "memory",
    "reductions", "remote_stores", "scalar",
)  # fmt: skip
HELPERS = ("addresses", "barriers", "fields")  # modules that families are made of
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * 7))
_HANDLER = ctypes.CFUNCTYPE(None, *([ctypes.c_int64] * 3), ctypes.c_int32, ctypes.c_int64)
STEPS = 400_000  # accesses to memory and turns of loops before a changed family is taken for endless


class Outside(Exception):
    """A changed family would touch memory that is not the launch's."""


class Memory:
    """What may be touched, and how often."""

    def __init__(self) -> None:
        self.span, self.left = (0, 0), STEPS
        self.handed: tuple[set[int], ...] = ()

    def allow(self, start: int, stop: int, *handed: set[int]) -> None:
        """`handed`: micro-ops, warps, constants that code of the machine may be given."""
        self.span, self.left, self.handed = (start, stop), STEPS, handed

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise TimeoutError

    def check(self, address: int, size: int) -> None:
        self.step()
        start, stop = self.span
        if not (start <= address <= address + size <= stop):
            raise Outside(f"{size} bytes at {address:#x}")


memory = Memory()


def _raw() -> types.ModuleType:
    made: Any = types.ModuleType(f"{NAME}.raw")
    for name, kind in {
        "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "i8": ctypes.c_int8,
        "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float,
        "f64": ctypes.c_double,
    }.items():  # fmt: skip

        def get(address: int, kind: Any = kind, floats: bool = name[0] == "f") -> Any:
            memory.check(address, ctypes.sizeof(kind))
            value = kind.from_address(address).value
            return (np.float32 if kind is ctypes.c_float else np.float64)(value) if floats else value

        def put(address: int, value: Any, kind: Any = kind, floats: bool = name[0] == "f") -> None:
            memory.check(address, ctypes.sizeof(kind))
            kind.from_address(address).value = float(value) if floats else int(value)

        setattr(made, name, get)
        setattr(made, f"put_{name}" if name[0] == "f" else f"put{name[1:]}", put)

    def move(target: int, source: int, size: int) -> None:
        memory.check(target, size)
        memory.check(source, size)
        ctypes.memmove(target, source, size)

    def fill(target: int, byte: int, size: int) -> None:
        memory.check(target, size)
        ctypes.memset(target, byte & 255, size)

    def put_half(address: int, value: Any) -> None:
        made.put16(address, int(np.float16(value).view(np.uint16)))

    made.copy, made.fill, made.put_half = move, fill, put_half
    made.half_of = lambda bits: np.float32(np.uint16(bits & 0xFFFF).view(np.float16))
    made.float_of = lambda bits: np.uint32(bits & 0xFFFFFFFF).view(np.float32)
    made.double_of = lambda bits: np.uint64(bits & (1 << 64) - 1).view(np.float64)
    made.bits_of = lambda value: int(np.float32(value).view(np.uint32))
    made.bits_of_double = lambda value: int(np.float64(value).view(np.int64))
    made.intrinsic = lambda function: _fma  # the only one that families make themselves
    return made


def _fma(x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        return float(x * y + z)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    try:
        return float(exact) if exact else float(np.float64(x) * np.float64(y) + np.float64(z))
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@lru_cache(maxsize=1)
def _numpy() -> types.ModuleType:
    """NumPy, but integers become floats with one rounding, as machines do it."""
    made: Any = types.ModuleType("python_numpy")
    vars(made).update(
        {
            name: getattr(np, name)
            for name in ("ceil", "float64", "floor", "inf", "int64", "nan", "rint", "trunc")
        }
    )
    made.float32 = lambda value: (
        np.uint32(write(Fraction(value), 0, F32)).view(np.float32)
        if type(value) is int
        else np.float32(value)
    )
    return made


def _execute(entry: int, uop: int, warp: int, constants: int, mask: int, scratch: int) -> None:
    """A handler over lanes, if it is one, with memory that is the case's."""
    memory.check(entry, 8)
    memory.check(scratch, 48 << 10)
    if any(place not in known for place, known in zip((uop, warp, constants), memory.handed)):
        raise Outside("operands of a handler")
    address = ctypes.c_int64.from_address(entry).value
    if address not in _handlers():
        raise Outside(f"no handler at {entry:#x}")
    _HANDLER(address)(uop, warp, constants, ctypes.c_int32(mask & 0xFFFFFFFF).value, scratch)


@lru_cache(maxsize=1)
def _handlers() -> set[int]:
    return set(vectors.handlers()[1].tolist())


def _call(entry: int, *args: int) -> int:
    """The family whose address stands at `entry`: of a case only what the checks are told with."""
    memory.check(entry, 8)
    return _CALLBACK(ctypes.c_int64.from_address(entry).value)(*args)


def _shifted(x: int, by: int) -> int:
    """As 64 bits have it: what is shifted out is lost."""
    if not 0 <= by < 256:
        raise Outside(f"a shift by {by}")
    return ((int(x) << by) + _TOP) % (2 * _TOP) - _TOP


_TOP = 1 << 63


class Families(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads the modules of the engine under our name."""

    def __init__(self) -> None:
        self.changed: dict[str, ast.Module] = {}
        self.found: dict[str, Any] = {}
        self._code: dict[str, Any] = {}
        self._shims = {
            "raw": _raw(),
            "layout": layout,
            "lanes_address": lanes_address,
            "lanes_matrix": lanes_matrix,
        }
        fake: Any = types.ModuleType("calls")
        fake.execute, fake.call = _execute, _call
        self._shims["calls"] = fake
        self._shims["vectors"] = vectors
        numbered: Any = types.ModuleType("numbers")
        vars(numbered).update({name: value for name, value in vars(numbers).items() if name.isupper()})
        numbered.family = self._family
        self._shims["numbers"] = numbered
        self._jit: Any = types.ModuleType("jit")
        self._jit.part = lambda function: function

    def _family(self, *names: str) -> Any:
        def keep(function: Any) -> Any:
            self.found.update(dict.fromkeys(names, function))
            return function

        return keep

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == NAME or name.startswith(f"{NAME}."):
            return importlib.util.spec_from_loader(name, self, is_package=name == NAME)
        return None

    def create_module(self, spec: Any) -> Any:
        return self._shims.get(spec.name.partition(".")[2])

    def exec_module(self, module: Any) -> None:
        name = module.__spec__.name.partition(".")[2]
        if not name or name in self._shims:
            return
        code = (
            compile(_wrapped(self.changed[name]), name, "exec") if name in self.changed else self._plain(name)
        )
        vars(module).update(python_shifted=_shifted, python_turn=memory.step)
        exec(code, vars(module))

    def _plain(self, name: str) -> Any:
        if name not in self._code:
            self._code[name] = compile(_wrapped(tree_of(name)), name, "exec")
        return self._code[name]

    def load(self, changed: dict[str, ast.Module]) -> dict[str, Any]:
        """All families, with these modules changed."""
        self.changed, self.found = changed, {}
        for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
            del sys.modules[name]
        sys.modules["python_jit"], sys.modules["python_numpy"] = self._jit, _numpy()
        sys.meta_path.insert(0, self)
        specs = {name: getattr(module, "__spec__", None) for name, module in self._shims.items()}
        try:
            for name in FAMILIES:
                importlib.import_module(f"{NAME}.{name}")
        finally:
            sys.meta_path.remove(self)
            for name, spec in specs.items():
                self._shims[name].__spec__ = spec
        self.found.update({name: _of_the_loop(name, *where) for name, where in LOOP.items()})
        return self.found


def _of_the_loop(name: str, module: str, given: str) -> Any:
    function = getattr(sys.modules[f"{NAME}.{module}"], name)
    return lambda op, uop, warp, cta, *_: function(warp if given == "warp" else cta) or 0


def tree_of(name: str) -> ast.Module:
    text = (FOLDER / f"{name}.py").read_text()
    text = text.replace(REAL, NAME).replace("tileprobe.targets.jit", "python_jit")
    return ast.parse(text.replace("import numpy as np", "import python_numpy as np"))


class _Shifts(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.LShift):
            return node
        return ast.Call(ast.Name("python_shifted", ast.Load()), [node.left, node.right], [])

    def visit_While(self, node: ast.While) -> ast.AST:
        """Turns are counted, too: a loop that looks for what is not there may touch no memory."""
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name("python_turn", ast.Load()), [], [])))
        return node


def _wrapped(tree: ast.Module) -> ast.Module:
    """The same with shifts of 64 bits, and loops that end."""
    return ast.fix_missing_locations(_Shifts().visit(copy.deepcopy(tree)))


families = Families()


# -- changes -------------------------------------------------------------------------------------------------------

_COMPARE: dict[Any, Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_BINARY: dict[Any, Any] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip
_SWAPPED = (ast.Sub, ast.LShift, ast.RShift, ast.FloorDiv, ast.Mod)


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """(what, how) for a node: `how` changes a copy of it in its place."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        other = _COMPARE[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} to {other.__name__}", lambda n: n.ops.__setitem__(0, other())
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        other = _BINARY[type(node.op)]
        yield f"{type(node.op).__name__} to {other.__name__}", lambda n: setattr(n, "op", other())
        if isinstance(node.op, _SWAPPED):

            def swap(n: Any) -> None:
                n.left, n.right = n.right, n.left

            yield "operands exchanged", swap
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} to {node.value + 1}", lambda n: setattr(n, "value", n.value + 1)
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield "and, or exchanged", lambda n: setattr(n, "op", other())
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield "condition turned", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))


@dataclass(frozen=True)
class Change:
    """One place of a module, and what is done to it."""

    module: str
    function: str
    line: str  # of the source
    number: int  # of the node
    what: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function}: `{self.line}`: {self.what}"


def _nodes(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    return [
        (function.name, node)
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    ]


def changes(module: str) -> list[Change]:
    """All that can be made in the functions of a module."""
    lines = (FOLDER / f"{module}.py").read_text().splitlines()
    return [
        Change(module, function, lines[getattr(node, "lineno", 1) - 1].strip(), n, what)
        for n, (function, node) in enumerate(_nodes(tree_of(module)))
        for what, _ in _changes(node)
    ]


def changed(tree: ast.Module, change: Change) -> ast.Module:
    """The module with one of them."""
    made = copy.deepcopy(tree)
    node = _nodes(made)[change.number][1]
    next(how for said, how in _changes(node) if said == change.what)(node)
    return ast.fix_missing_locations(made)
