"""Tries mutants, one after another: `mutants_trying.py TODO INTO`, started by `mutants.py run`.

Comes in: a file of mutants, and what `mutants.py cover` noted. Goes out: a line for each with its outcome.

Where the change is inside a function, modules and tests are imported once, and a copy of the process (fork) gets the
function's new code. Other changes (constants, defaults, what runs while modules are imported) need a package of their
own and a process that imports it. What was compiled before is handed to each try, except for changes to passes.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import CodeType, FunctionType

from mutants import (
    CACHE,
    FALLBACK,
    OUT,
    PACKAGE,
    PARTS,
    ROOT,
    Mutant,
    all_tests,
    arguments,
    changed,
    covering,
    operators,
)

BUDGET_S = float(os.environ.get("MUTANTS_BUDGET", "60"))  # of tests for one mutant, the quickest
FRONT = 8  # tests that failed most often on changes to the same file, tried before all others
HEAVY = ("numpy", "polars", "rich", "xdsl.ir", "llvmlite.binding", "numba", "torch", "hypothesis", "pytest")
HUNG, DIED = "\thung", "\tdied"  # behind the name of a test


# -- which tests ------------------------------------------------------------------------------------------------


class Choice:
    """The tests for a mutant, in the order in which they are worth trying."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = json.loads((OUT / "seconds.json").read_text())
        self.covering = covering()
        self.kills: dict[str, Counter] = {}
        self.unsound: set[str] = set()  # they fail where nothing is changed, too

    def covers(self, mutant: Mutant) -> set[str]:
        """The tests that run the line; for one that runs while its module is imported, all that run the module."""
        lines = self.covering.get(mutant.file, {})
        mine = lines.get(mutant.line, set())
        found = set().union(*lines.values()) if "" in mine or not mine else mine
        return found.intersection(self.seconds) - self.unsound

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that failed on changes to the same file, then the others, file by file, within the budget: tests of the
        same part go first."""
        part = f"tests/{mutant.file.split('/')[0]}/"
        known = sorted(self.covers(mutant), key=lambda name: (not name.startswith(part), self.seconds[name]))
        spent, within = 0.0, []
        for name in known:
            spent += self.seconds[name]
            if within and spent > BUDGET_S:
                break
            within.append(name)
        kills = self.kills.get(mutant.file, Counter())
        front = [name for name, _ in kills.most_common() if name in set(within)][:FRONT]
        cost: Counter = Counter()
        for name in within:
            cost[name.split("::")[0]] += self.seconds[name]  # type: ignore[assignment]
        rest = [name for name in within if name not in front]
        return front + sorted(rest, key=lambda name: (cost[name.split("::")[0]], name.split("::")[0]))

    def killed(self, mutant: Mutant) -> None:
        self.kills.setdefault(mutant.file, Counter())[mutant.by] += 1

    def limit_s(self, test: str) -> float:
        """A test that takes longer hangs: other processes are about, and hypothesis shrinks what it finds."""
        return 60 + 10 * self.seconds.get(test, 5.0)


# -- a try in a process of its own ------------------------------------------------------------------------------


def attempt(body: Callable[[Path, int], None], limit_s: Callable[[str], float]) -> str:
    """Runs `body` in a copy of this process, with a folder of its own beside the checkout, so that files can be linked
    instead of copied. Out comes the test that failed, hung or died, or nothing."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-", dir=OUT))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            body(folder, writing)
        finally:
            os._exit(3)
    os.close(writing)
    try:
        return _outcome(reading, limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # with whatever a broken test left running
        os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(reading: int, limit_s: Callable[[str], float]) -> str:
    """The child says "begin TEST", "failed TEST" and, at its end, "passed"."""
    said, running = "", ""
    with open(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], limit_s(running))
            if not ready:
                return f"{running}{HUNG}"
            text = pipe.read(65536).decode()
            if not text:
                return f"{running}{DIED}"
            said += text
            for line in said.splitlines():
                word, _, name = line.partition(" ")
                if word == "begin":
                    running = name
                elif word in ("failed", "passed"):
                    return name


class Teller:
    """A pytest plugin of the child: says what begins and what failed, and ends with the first failure."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def say(self, text: str) -> None:
        os.write(self.pipe, f"{text}\n".encode())

    def pytest_runtest_logstart(self, nodeid, location):
        self.say(f"begin {nodeid}")

    def pytest_collectreport(self, report):
        if report.failed:
            self.say(f"failed {report.nodeid}")
            os._exit(1)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.say(f"failed {report.nodeid}")
            os._exit(1)


def _quiet(folder: Path, mutant: Mutant) -> None:
    """Nothing on the terminal, nothing left in the checkout."""
    log = OUT / "last.txt" if "MUTANTS_SHOW" in os.environ else os.devnull
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ["TRITON_CACHE_DIR"] = str(_compiled(folder, mutant))
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    tempfile.tempdir = None
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True


def _compiled(folder: Path, mutant: Mutant) -> Path:
    """Triton's cache. What is right of it cannot change what is in there, a session may, and passes make it."""
    if mutant.file.startswith(("trace/", "tools/")):
        return CACHE
    if mutant.file.startswith("session/"):
        shutil.copytree(CACHE, folder / "cache", copy_function=os.link)
    return folder / "cache"


# -- changes inside functions: the code of a function is swapped ------------------------------------------------


def _own(code: CodeType) -> tuple:
    """What a code object does, without the functions and classes in it and without its places."""
    constants = [(type(c), c) for c in code.co_consts if not isinstance(c, CodeType)]
    return (
        code.co_code,
        repr(constants),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_exceptiontable,
    )


def _inner(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def is_function(code: CodeType) -> bool:
    return bool(code.co_flags & 0x1)  # CO_OPTIMIZED: neither a module nor a class


def swaps(old: CodeType, new: CodeType, inside: bool = False) -> Iterator[tuple[CodeType, CodeType]] | None:
    """The functions whose code differs, with those around them; None where a module's or a class's own code does."""
    if len(_inner(old)) != len(_inner(new)):
        return iter([(old, new)]) if inside else None
    if not inside and _own(old) != _own(new):
        return None
    found = []
    for before, after in zip(_inner(old), _inner(new), strict=True):
        deeper = swaps(before, after, inside or is_function(before))
        if deeper is None:
            return None
        found += list(deeper)
    if inside and (found or _own(old) != _own(new)):
        found.append((old, new))
    return iter(found)


def swappable(mutant: Mutant, text: str, imported: set[int]) -> list[tuple[CodeType, CodeType]]:
    """Nothing where the package must be imported anew; `imported` are the lines that run while it is."""
    path = str(mutant.path)
    old, new = compile(mutant.path.read_text(), path, "exec"), compile(text, path, "exec")
    pairs = list(swaps(old, new) or ())
    lines = {
        line for code, _ in pairs for _, _, line in code.co_lines() if line and line != code.co_firstlineno
    }
    return [] if lines & imported else pairs


@functools.cache
def _functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions there are, by where they come from."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType):
            code = thing.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(thing)
    return found


def concerned(pairs: list[tuple[CodeType, CodeType]]) -> list[tuple[FunctionType, CodeType]]:
    """The functions that a change is made to, with their new code."""
    return [
        (function, new)
        for old, new in pairs
        for function in _functions().get((old.co_filename, old.co_qualname, old.co_firstlineno), ())
        if _own(function.__code__) == _own(old)
    ]


class Loop:
    """A pytest plugin of the process that has imported everything: instead of running the tests, tries the mutants."""

    def __init__(self, work: Callable[[dict[str, object]], None]) -> None:
        self.work = work

    def pytest_runtestloop(self, session):
        gc.collect()
        _functions()
        gc.freeze()
        self.work({item.nodeid: item for item in session.items})
        return True


def run_items(items: list, pipe: int) -> None:
    """The chosen tests in their order, as pytest's own loop would."""
    teller = Teller(pipe)
    items[0].config.pluginmanager.register(teller)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    teller.say("passed")
    os._exit(0)


# -- other changes: a package of its own ------------------------------------------------------------------------


def run_package(folder: Path, mutant: Mutant, text: str, tests: list[str], pipe: int) -> None:
    shutil.copytree(PACKAGE, folder / "tileprobe", copy_function=os.link)
    target = folder / "tileprobe" / mutant.file
    target.unlink()
    target.write_text(text)
    os.environ["PYTHONPATH"] = f"{folder}:{os.environ.get('PYTHONPATH', '')}"
    sys.path[:] = [str(folder), *(entry for entry in sys.path if Path(entry) != PACKAGE.parent)]
    import pytest

    teller = Teller(pipe)
    code = pytest.main(["-x", *arguments(tests)], [teller])
    if code == 0:
        teller.say("passed")
    os._exit(int(code))


# -- all of them ------------------------------------------------------------------------------------------------


class Trying:
    def __init__(self, mutants: list[Mutant], into: Path) -> None:
        self.mutants, self.into, self.choice = mutants, into, Choice()
        self.sound: dict[str, bool] = {}
        self.known = operators()

    def swaps(self, mutant: Mutant) -> list[tuple[CodeType, CodeType]]:
        """The functions to change, where that is enough and tests are known."""
        text = changed(mutant, self.known)
        assert text is not None
        lines = self.choice.covering.get(mutant.file, {})
        pairs = swappable(mutant, text, {line for line, tests in lines.items() if "" in tests})
        return pairs if concerned(pairs) and self.choice.tests(mutant) else []

    def try_one(self, mutant: Mutant, run: Callable[[list[str], bool], str]) -> None:
        """`run` gets tests and whether the change is made. What fails without it, too, is not asked again."""
        while os.environ.get("MUTANTS_PAUSE") and Path(os.environ["MUTANTS_PAUSE"]).exists():
            time.sleep(2)  # somebody measures on this machine
        begin, covered = time.monotonic(), bool(self.choice.tests(mutant))
        while True:
            by = run(self.choice.tests(mutant) or list(FALLBACK), True)
            name = by.split("\t")[0]
            if not by or self.is_sound(name, run):
                break
            print(f"fails without a change: {name}", flush=True)
            self.choice.unsound.add(name)
        mutant.by, mutant.seconds = by, round(time.monotonic() - begin, 1)
        mutant.outcome = "killed" if by else "survived" if covered else "uncovered"
        if by and not by.endswith(HUNG):
            self.choice.killed(mutant)
        with self.into.open("a") as out:
            out.write(json.dumps(asdict(mutant)) + "\n")

    def is_sound(self, name: str, run: Callable[[list[str], bool], str]) -> bool:
        if name not in self.sound:
            self.sound[name] = not run([name], False)
        return self.sound[name]

    def packages(self) -> None:
        for name in HEAVY:  # not Triton, which loads this package as a backend
            __import__(name)
        for mutant in self.mutants:
            text = changed(mutant, self.known)
            assert text is not None
            self.try_one(mutant, functools.partial(self.run_package, mutant, text))

    def run_package(self, mutant: Mutant, text: str, tests: list[str], change: bool) -> str:
        def body(folder: Path, pipe: int) -> None:
            _quiet(folder, mutant)
            text_now = text if change else mutant.path.read_text()
            left_out = [f"--deselect={name}" for name in self.choice.unsound]
            run_package(folder, mutant, text_now, [*tests, *left_out], pipe)

        return attempt(body, self.choice.limit_s)

    def functions(self) -> list[Mutant]:
        """Returns those that need a package of their own."""
        import pytest

        for part in PARTS:
            for path in sorted((PACKAGE / part).glob("*.py")):
                importlib.import_module(f"tileprobe.{part}.{path.stem}".removesuffix(".__init__"))
        pytest.main([*arguments(all_tests()), "-s"], [Loop(self.function_loop)])
        return [mutant for mutant in self.mutants if not mutant.outcome]

    def function_loop(self, items: dict[str, object]) -> None:
        for mutant in self.mutants:
            if pairs := self.swaps(mutant):
                self.try_one(mutant, functools.partial(self.run_items, items, mutant, pairs))

    def run_items(
        self, items: dict[str, object], mutant: Mutant, pairs: list, tests: list[str], change: bool
    ) -> str:
        def body(folder: Path, pipe: int) -> None:
            _quiet(folder, mutant)
            for function, code in concerned(pairs) if change else ():
                function.__code__ = code
            run_items([items[name] for name in tests if name in items], pipe)

        return attempt(body, self.choice.limit_s)


def main() -> None:
    todo, into = map(Path, sys.argv[1:3])
    os.chdir(ROOT)
    mutants = [Mutant(**row | {"outcome": ""}) for row in json.loads(todo.read_text())]
    if "--packages" in sys.argv:
        return Trying(mutants, into).packages()
    left = Trying(mutants, into).functions()
    todo.write_text(json.dumps([asdict(mutant) for mutant in left]))
    os.execv(sys.executable, [sys.executable, *sys.argv, "--packages"])  # a process that has imported nothing


if __name__ == "__main__":
    main()
