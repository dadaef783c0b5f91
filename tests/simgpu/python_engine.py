"""Families of the engine run by Python in place of compiled code, as they are written or with one place changed.

Their modules are loaded once more under another name, with memory that is reached through ctypes and only where the
launch has memory. A table of code that has callbacks for these families goes into the engine, so that kernels run as
they always do, slowly. `mutants` changes the source of one module, `running` runs launches inside with it.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import ctypes
import importlib
import importlib.abc
import importlib.util
import math
import random
import signal
import sys
import types
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tileprobe.targets.simgpu import blocks
from tileprobe.targets.simgpu.engine import lanes_address, lanes_matrix, layout, numbers, table, vectors

FOLDER = Path(vectors.__file__).parent
NAME, REAL = "python_families", "tileprobe.targets.simgpu.engine"
FAMILIES = ("atomics", "bulk", "control", "copies", "exchange", "groups", "mbarriers", "memory", "scalar")
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * 7))
_HANDLER = ctypes.CFUNCTYPE(None, *([ctypes.c_int64] * 3), ctypes.c_int32, ctypes.c_int64)
SECONDS = 20  # before a changed family is taken for endless


class Outside(Exception):
    """A changed family would touch memory that is not the launch's."""


class Memory:
    """What may be touched."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.last = (0, 0)

    def check(self, address: int, size: int) -> None:
        start, stop = self.last
        if start <= address and address + size <= stop:
            return
        for span in self.spans:
            if span[0] <= address and address + size <= span[1]:
                self.last = span
                return
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


def _execute(entry: int, uop: int, warp: int, constants: int, mask: int, scratch: int) -> None:
    address = ctypes.c_int64.from_address(entry).value
    _HANDLER(address)(uop, warp, constants, ctypes.c_int32(mask & 0xFFFFFFFF).value, scratch)


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
        fake.execute, fake.call = _execute, None
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
        code = compile(self.changed[name], name, "exec") if name in self.changed else self._plain(name)
        exec(code, vars(module))

    def _plain(self, name: str) -> Any:
        if name not in self._code:
            self._code[name] = compile(tree_of(name), name, "exec")
        return self._code[name]

    def load(self, changed: dict[str, ast.Module]) -> dict[str, Any]:
        """All families, with these modules changed."""
        self.changed, self.found = changed, {}
        for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
            del sys.modules[name]
        sys.modules["python_jit"] = self._jit
        sys.meta_path.insert(0, self)
        specs = {name: getattr(module, "__spec__", None) for name, module in self._shims.items()}
        try:
            for name in FAMILIES:
                importlib.import_module(f"{NAME}.{name}")
        finally:
            sys.meta_path.remove(self)
            for name, spec in specs.items():
                self._shims[name].__spec__ = spec
        return self.found


def tree_of(name: str) -> ast.Module:
    text = (FOLDER / f"{name}.py").read_text()
    return ast.parse(text.replace(REAL, NAME).replace("tileprobe.targets.jit", "python_jit"))


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


def mutants(name: str, most: int | None = None) -> list[tuple[str, ast.Module]]:
    """(what was changed, the module), one change each in the functions of a module; of more than `most` some."""
    tree = tree_of(name)
    nodes = [
        node
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    ]
    places = [(n, what) for n, node in enumerate(nodes) for what, _ in _changes(node)]
    if most is not None and len(places) > most:
        places = random.Random(name).sample(places, most)
    found = []
    for n, what in places:
        changed = copy.deepcopy(tree)
        same = [
            node
            for function in changed.body
            if isinstance(function, ast.FunctionDef)
            for statement in function.body
            for node in ast.walk(statement)
        ]
        next(how for said, how in _changes(same[n]) if said == what)(same[n])
        line = getattr(nodes[n], "lineno", 0)
        found.append((f"{name}.py:{line}: {what}", ast.fix_missing_locations(changed)))
    return found


# -- running -------------------------------------------------------------------------------------------------------


def _arrays(thing: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for value in vars(thing).values():
        for one in (
            value
            if isinstance(value, (list, tuple))
            else value.values()
            if isinstance(value, dict)
            else [value]
        ):
            if isinstance(one, np.ndarray):
                found.append(one)
    return found


def _allow(worker: Any) -> None:
    """The memory of a worker's launch, and what its kernel was given."""
    made = worker.image
    arrays = [*_arrays(worker), *_arrays(made), *_arrays(made.program)]
    for value in vars(worker).values():
        for one in value if isinstance(value, list) else [value]:
            if type(one).__module__ == blocks.__name__ and one is not made:
                arrays += _arrays(one)
    memory.spans = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays]
    memory.spans += [tuple(span) for span in made.ranges.tolist()]
    memory.last = (0, 0)


@contextlib.contextmanager
def running(changed: dict[str, ast.Module], only: tuple[str, ...]) -> Iterator[list[BaseException]]:
    """Launches inside run the families of the modules `only` in Python. Gives what went wrong in them."""
    functions = families.load(changed)
    wrong: list[BaseException] = []

    def guarded(function: Any) -> Any:
        def call(*args: int) -> int:
            try:
                return int(function(*args))
            except BaseException as error:
                wrong.append(error)
                return layout.TRAP

        return _CALLBACK(call)

    made = table.table().copy()
    held = {function: guarded(function) for function in set(functions.values())}
    for name, function in functions.items():
        if function.__module__.rpartition(".")[2] in only:
            made[numbers.NUMBERS[name]] = ctypes.cast(held[function], ctypes.c_void_p).value
    before, init = table.table, blocks.Worker.__init__

    def watched(self: Any, *args: Any, **more: Any) -> None:
        init(self, *args, **more)
        _allow(self)

    def late(number: int, frame: Any) -> None:
        raise TimeoutError

    table.table, blocks.Worker.__init__ = (lambda: made), watched  # type: ignore[assignment, method-assign]
    alarm = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield wrong
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        table.table, blocks.Worker.__init__ = before, init  # type: ignore[method-assign]
