"""Changes the code in small ways, one at a time, and sees whether a test notices.

`cover` runs the tests once and notes which lines each of them runs; `run` draws mutants at random (cosmic-ray's
operators: another comparison, another operator, a number off by one, a condition turned round, a loop that never runs),
and runs the tests that cover the changed line against each. A mutant that no test fails on has survived; the JSON that
is written has the difference for each, to be judged by a person: some change nothing that can be seen.

    pip install cosmic-ray coverage
    python scripts/mutants.py cover
    python scripts/mutants.py run --count 1000 --seed 0 --jobs 2

Nothing in the checkout is changed: a mutant is a copy of the package in a temporary folder.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tileprobe"
OUT = ROOT / "out" / "mutants"
PARTS = ("passes", "trace", "session", "tools")
TESTS = (
    "ir",
    "passes",
    "trace",
    "layouts",
    "tools",
    "views",
    "session",
    "targets",
    "test_arrow.py",
    "test_files.py",
)
# Tests that run commands as processes of their own, whose lines are not noted.
FALLBACK = ("tests/session/test_run.py",)
NOT_NOTED = (*FALLBACK, "tests/session/test_endings.py", "tests/session/test_inductor_session.py")
LEFT_OUT = ("VariableReplacer", "VariableInserter")  # they need to be told names
BUDGET_S = 60.0  # of tests for one mutant, the quickest first
HEAVY = ("numpy", "polars", "rich", "xdsl.ir", "llvmlite.binding", "numba", "torch", "hypothesis", "pytest")


@dataclass
class Mutant:
    file: str  # in the package
    line: int
    operator: str
    occurrence: int
    outcome: str = ""  # killed, survived, uncovered
    seconds: float = 0.0
    diff: str = ""


# -- which test runs which line ---------------------------------------------------------------------------------


class Contexts:
    """A pytest plugin: what runs is noted under the name of the test, with its duration."""

    def __init__(self, measured) -> None:
        self.measured, self.seconds = measured, {}

    def pytest_runtest_protocol(self, item):
        self.measured.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration


def cover() -> int:
    import coverage
    import pytest

    OUT.mkdir(parents=True, exist_ok=True)
    data = OUT / "coverage"
    measured = coverage.Coverage(data_file=str(data), source=[str(PACKAGE)], config_file=False)
    plugin = Contexts(measured)
    measured.start()
    code = pytest.main(
        [
            "-q",
            "-p",
            "no:cacheprovider",
            *(f"--ignore={name}" for name in NOT_NOTED),
            *(f"tests/{name}" for name in TESTS),
        ],
        [plugin],
    )
    measured.stop()
    measured.save()
    (OUT / "seconds.json").write_text(json.dumps(plugin.seconds))
    print(f"{len(plugin.seconds)} tests; now: python scripts/mutants.py run")
    return int(code)


def covering() -> dict[str, dict[int, set[str]]]:
    """For each file of the package and line the tests that run it."""
    import coverage

    data = coverage.CoverageData(str(OUT / "coverage"))
    try:
        data.read()
    except (coverage.CoverageException, sqlite3.Error) as error:
        raise SystemExit(f"no coverage to go by ({error}); first: python scripts/mutants.py cover") from error
    found: dict[str, dict[int, set[str]]] = {}
    for path in data.measured_files():
        lines = data.contexts_by_lineno(path)
        parts = Path(path).parts
        name = "/".join(parts[len(parts) - parts[::-1].index("tileprobe") :])
        found[name] = {line: {test for test in tests if test} for line, tests in lines.items()}
    return found


# -- mutants ----------------------------------------------------------------------------------------------------


def operators() -> dict[str, object]:
    from cosmic_ray import plugins

    names = [name for name in plugins.operator_names() if not name.endswith(LEFT_OUT)]
    return {name: plugins.get_operator(name)() for name in names}


def typed_places(tree: ast.AST) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types are written: `int | None` is no arithmetic."""
    found = []
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if part is not None:
                found.append(((part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)))
    return found


def mutants_of(path: Path, known: dict[str, object]) -> Iterator[Mutant]:
    from cosmic_ray.ast import ast_nodes, get_ast

    source = path.read_text()
    types = typed_places(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    for name, operator in known.items():
        places = [place for node in nodes for place in operator.mutation_positions(node)]  # type: ignore[attr-defined]
        for number, (start, _) in enumerate(places):
            if not any(low <= start < high for low, high in types):
                yield Mutant(path.relative_to(PACKAGE).as_posix(), start[0], name.split("/")[-1], number)


def drawn(count: int, seed: int) -> list[Mutant]:
    """Each place in the code is as likely as any other, however many operators fit it."""
    known = operators()
    files = [path for part in PARTS for path in sorted((PACKAGE / part).glob("*.py"))]
    places: dict[tuple, list[Mutant]] = defaultdict(list)
    for path in files:
        for mutant in mutants_of(path, known):
            places[mutant.file, mutant.line, mutant.operator.split("_")[0], mutant.occurrence].append(mutant)
    order = random.Random(seed)
    chosen = order.sample(sorted(places), min(2 * count, len(places)))
    made = (order.choice(places[key]) for key in chosen)
    found = [mutant for mutant in made if changed(mutant, known) is not None]
    return found[:count]


def changed(mutant: Mutant, known: dict[str, object]) -> str | None:
    """The mutated source; None where it is the same program or none at all."""
    from cosmic_ray.mutating import mutate_code

    source = (PACKAGE / mutant.file).read_text()
    text = mutate_code(source, known[f"core/{mutant.operator}"], mutant.occurrence)
    if text is None:
        return None
    try:
        same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    lines = difflib.unified_diff(
        source.splitlines(), text.splitlines(), mutant.file, mutant.file, lineterm="", n=1
    )
    mutant.diff = "\n".join(list(lines)[2:])
    return None if same else text


# -- running ----------------------------------------------------------------------------------------------------


def chosen_tests(tests: set[str], seconds: dict[str, float]) -> list[str]:
    """The quickest first, as many as the budget allows."""
    picked, spent = [], 0.0
    for test in sorted(tests, key=lambda name: (seconds.get(name, 1.0), name)):
        spent += seconds.get(test, 1.0)
        if picked and spent > BUDGET_S:
            break
        picked.append(test)
    return picked


def attempt(mutant: Mutant, text: str, tests: list[str], limit_s: float) -> bool:
    """Whether a test fails on it, in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    try:
        shutil.copytree(PACKAGE, folder / "tileprobe", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "tileprobe" / mutant.file).write_text(text)
        child = os.fork()
        if child == 0:
            _child(folder, tests)
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status != 0
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return True  # it hangs, which a test would notice
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _child(folder: Path, tests: list[str]) -> None:
    code = 1
    try:
        os.setsid()
        out = os.open(
            os.devnull if "MUTANTS_SHOW" not in os.environ else OUT / "last.txt", os.O_WRONLY | os.O_CREAT
        )
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
        os.environ["PYTHONPATH"] = f"{folder}:{os.environ.get('PYTHONPATH', '')}"
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        sys.path[:] = [str(folder), *(entry for entry in sys.path if Path(entry) != PACKAGE.parent)]
        import pytest

        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", *tests]
        )
    finally:
        os._exit(int(code))


def work(mutants: list[Mutant], share: int, of: int) -> None:
    """One of several processes: every `of`-th mutant, each result a line of its file."""
    for name in HEAVY:  # not Triton, which loads this package as a backend
        __import__(name)
    known, cover_of = operators(), covering()
    seconds = json.loads((OUT / "seconds.json").read_text())
    with (OUT / f"results-{share}.jsonl").open("a") as out:
        for mutant in mutants[share::of]:
            text = changed(mutant, known)
            assert text is not None
            tests = cover_of.get(mutant.file, {}).get(mutant.line, set())
            picked = chosen_tests(tests, seconds) or list(FALLBACK)
            limit = 60 + 4 * sum(seconds.get(test, 5.0) for test in picked)
            begin = time.monotonic()
            killed = attempt(mutant, text, picked, limit)
            mutant.seconds = round(time.monotonic() - begin, 1)
            mutant.outcome = "killed" if killed else "survived" if tests else "uncovered"
            out.write(json.dumps(asdict(mutant)) + "\n")
            out.flush()


def run(count: int, seed: int, jobs: int) -> int:
    mutants = drawn(count, seed)
    print(f"{len(mutants)} mutants", flush=True)
    for old in OUT.glob("results-*.jsonl"):
        old.unlink()
    children = []
    for share in range(jobs):
        child = os.fork()
        if child == 0:
            work(mutants, share, jobs)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return report(count, seed)


def report(count: int, seed: int) -> int:
    rows = [json.loads(line) for path in sorted(OUT.glob("results-*.jsonl")) for line in path.open()]
    by_part: dict[str, Counter] = defaultdict(Counter)
    for row in rows:
        by_part[row["file"].split("/")[0]][row["outcome"]] += 1
    by_part["all"] = sum(by_part.values(), Counter())
    print(f"{'':10}{'mutants':>10}{'killed':>10}{'survived':>10}{'uncovered':>10}{'share':>10}")
    for part, found in by_part.items():
        share = found["killed"] / max(1, sum(found.values()))
        numbers = (sum(found.values()), found["killed"], found["survived"], found["uncovered"])
        print(f"{part:10}" + "".join(f"{number:10}" for number in numbers) + f"{share:10.1%}")
    result = {
        "count": count,
        "seed": seed,
        "parts": by_part,
        "survivors": [r for r in rows if r["outcome"] != "killed"],
    }
    (OUT / "result.json").write_text(json.dumps(result, indent=1))
    print(f"survivors with their differences: {(OUT / 'result.json').relative_to(ROOT)}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("cover", "run", "report"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    os.chdir(ROOT)
    if args.what == "cover":
        return cover()
    return run(args.count, args.seed, args.jobs) if args.what == "run" else report(args.count, args.seed)


if __name__ == "__main__":
    raise SystemExit(main())
