"""Changes the code in small ways, one at a time, and sees whether a test notices.

`cover` runs the tests once and notes which lines each of them runs; `run` draws mutants at random (cosmic-ray's
operators: another comparison, another operator, a number off by one, a condition turned round, a loop that never runs),
and runs the tests that cover the changed line against each (`mutants_trying.py`). A mutant that no test fails on has
survived; the JSON that is written has the difference for each, to be judged by a person: some change nothing that can
be seen. `run` goes on where it was stopped; with `--again` it tries those that survived, against the tests as they are
now. A first round with a small `--budget` and another one with `--again` is quicker than one: most mutants die soon.
`cover` with the names of tests adds them to what is known.

    pip install cosmic-ray coverage
    python scripts/mutants.py cover
    python scripts/mutants.py run --count 1000 --seed 0 --jobs 2

Nothing in the checkout is changed. A mutant is found again by its difference, so the code around it may have moved.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tileprobe"
OUT = ROOT / "out" / "mutants"
CACHE = OUT / "compiled"  # what the tests compile
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
    "export",
    "gpu",
    "cambricon/test_cambricon_units_tool.py",
    "cambricon/test_cambricon_simulate.py",
    "cambricon/test_cambricon_jit.py",
    "fuzz/test_inputs.py",
    "test_files.py",
)
# Tests that run commands as processes of their own, whose lines are not noted.
FALLBACK = ("tests/session/test_run.py",)
NOT_NOTED = (*FALLBACK, "tests/session/test_endings.py", "tests/session/test_inductor_session.py")
LEFT_OUT = ("VariableReplacer", "VariableInserter")  # they need to be told names
TRIED = ("killed", "survived", "uncovered")


@dataclass
class Mutant:
    file: str  # in the package
    line: int
    operator: str
    occurrence: int
    drawn: str = ""  # line and occurrence when it was drawn
    outcome: str = ""  # one of TRIED; gone where the code is no longer there
    seconds: float = 0.0
    by: str = ""  # the test that failed
    diff: str = ""

    @property
    def path(self) -> Path:
        return PACKAGE / self.file

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.operator, self.drawn

    @property
    def name(self) -> tuple[str, str, str]:
        """What it is, wherever its line has moved."""
        return (
            self.file,
            self.operator,
            "\n".join(line for line in self.diff.splitlines() if line[:1] in "+-"),
        )


# -- which test runs which line ---------------------------------------------------------------------------------


class Contexts:
    """A pytest plugin: what runs is noted under the name of the test, with its time; what failed is remembered."""

    def __init__(self, measured) -> None:
        self.measured, self.seconds, self.failed, self.begin = measured, {}, set(), 0.0

    def pytest_runtest_protocol(self, item):
        self.begin = cpu_s()
        self.measured.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = cpu_s() - self.begin
        if report.failed:
            self.failed.add(report.nodeid)


def cpu_s() -> float:
    """Of this process and of those that it has waited for: other people's processes do not make a test dearer."""
    return sum(os.times()[:4])


def arguments(paths: list[str]) -> list[str]:
    return ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0", *paths]


def all_tests() -> list[str]:
    return [*(f"--ignore={name}" for name in NOT_NOTED), *(f"tests/{name}" for name in TESTS)]


def cover(paths: list[str]) -> int:
    import coverage
    import pytest

    OUT.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_CACHE_DIR"] = str(CACHE)
    measured = coverage.Coverage(data_file=str(OUT / "coverage"), source=[str(PACKAGE)], config_file=False)
    if paths:
        measured.load()
    plugin = Contexts(measured)
    measured.start()
    pytest.main(arguments(paths or all_tests()), [plugin])
    measured.stop()
    measured.save()
    times = OUT / "seconds.json"
    seconds = json.loads(times.read_text()) if paths else {}
    seconds |= {name: took for name, took in plugin.seconds.items() if name not in plugin.failed}
    times.write_text(json.dumps(seconds))
    print(f"{len(plugin.seconds)} tests, {len(plugin.failed)} failed and are left out")
    return 1 if plugin.failed else 0


def covering() -> dict[str, dict[int, set[str]]]:
    """For each file of the package and line the tests that run it; "" is what runs while modules are imported."""
    import coverage

    data = coverage.CoverageData(str(OUT / "coverage"))
    try:
        data.read()
    except (coverage.CoverageException, sqlite3.Error) as error:
        raise SystemExit(f"no coverage to go by ({error}); first: python scripts/mutants.py cover") from error
    found: dict[str, dict[int, set[str]]] = {}
    for path in data.measured_files():
        parts = Path(path).parts
        name = "/".join(parts[len(parts) - parts[::-1].index("tileprobe") :])
        found[name] = {line: set(tests) for line, tests in data.contexts_by_lineno(path).items()}
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
                file = path.relative_to(PACKAGE).as_posix()
                yield Mutant(file, start[0], name.split("/")[-1], number, f"{start[0]}:{number}")


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
    found: list[Mutant] = []
    for mutant in made:
        if len(found) < count and changed(mutant, known) is not None:
            found.append(mutant)
    return found


def changed(mutant: Mutant, known: dict[str, object]) -> str | None:
    """The mutated source; None where it is the same program or none at all."""
    from cosmic_ray.mutating import mutate_code

    source = mutant.path.read_text()
    try:
        text = mutate_code(source, known[f"core/{mutant.operator}"], mutant.occurrence)
    except AttributeError:  # cosmic-ray's own, on exceptions that are no plain names
        return None
    if text is None:
        return None
    try:
        same = ast.dump(ast.parse(text)) == _dumped(source)
    except SyntaxError:
        return None
    lines = difflib.unified_diff(
        source.splitlines(), text.splitlines(), mutant.file, mutant.file, lineterm="", n=1
    )
    mutant.diff = "\n".join(list(lines)[2:])
    return None if same else text


@functools.cache
def _dumped(source: str) -> str:
    return ast.dump(ast.parse(source))


def found_again(old: list[Mutant]) -> tuple[list[Mutant], list[Mutant]]:
    """The same changes in the code as it is now, and those whose code is gone."""
    known = operators()
    wanted: dict[str, set[tuple[str, str]]] = defaultdict(
        set
    )  # file -> operator and the line that it changed
    for mutant in old:
        for line in mutant.diff.splitlines():
            if line.startswith("-"):
                wanted[mutant.file].add((mutant.operator, line[1:]))
    now: dict[tuple, list[Mutant]] = defaultdict(list)
    for file, pairs in wanted.items():
        path = PACKAGE / file
        if not path.exists():
            continue
        lines = path.read_text().splitlines()
        mine = {f"core/{operator}": known[f"core/{operator}"] for operator, _ in pairs}
        for mutant in mutants_of(path, mine):
            here = (mutant.operator, lines[mutant.line - 1]) in pairs
            if here and changed(mutant, known) is not None:
                now[mutant.name].append(mutant)
    moved, gone = [], []
    for mutant in old:
        if same := now[mutant.name]:
            nearest = min(same, key=lambda other: abs(other.line - mutant.line))
            moved.append(replace(nearest, drawn=mutant.drawn))
        else:
            gone.append(replace(mutant, outcome="gone"))
    return moved, gone


# -- results ----------------------------------------------------------------------------------------------------


def results(seed: int) -> list[Mutant]:
    """The last result of each mutant."""
    found: dict[tuple, Mutant] = {}
    for path in sorted(OUT.glob(f"seed{seed}-*.jsonl"), key=lambda path: int(path.stem.split("-")[1])):
        for line in path.read_text().splitlines():
            mutant = Mutant(**json.loads(line))
            found[mutant.key] = mutant
    return list(found.values())


def run(count: int, seed: int, jobs: int, again: bool) -> int:
    """Hands what is to be tried to processes of their own, each of which adds lines to a file of its own."""
    OUT.mkdir(parents=True, exist_ok=True)
    known, gone = results(seed), []
    if again:
        tried, gone = found_again([mutant for mutant in known if mutant.outcome != "killed"])
    else:
        done = {mutant.key for mutant in known}
        tried = [mutant for mutant in drawn(count, seed) if mutant.key not in done]
    print(f"{len(known)} known, {len(tried)} to try", flush=True)
    taken = [int(path.stem.split("-")[1]) for path in OUT.glob(f"seed{seed}-*.jsonl")]
    begin = max(taken, default=-1) + 1
    children = []
    for share in range(jobs):
        todo = OUT / f"todo-{share}.json"
        todo.write_text(json.dumps([asdict(mutant) for mutant in tried[share::jobs]]))
        into = OUT / f"seed{seed}-{begin + share}.jsonl"
        into.write_text("".join(json.dumps(asdict(mutant)) + "\n" for mutant in gone[share::jobs]))
        command = [sys.executable, str(ROOT / "scripts" / "mutants_trying.py"), str(todo), str(into)]
        children.append(subprocess.Popen(command))
    for child in children:
        child.wait()
    return report(count, seed)


def report(count: int, seed: int) -> int:
    rows = results(seed)
    by_part: dict[str, Counter] = defaultdict(Counter)
    for row in rows:
        by_part[row.file.split("/")[0]][row.outcome] += 1
    by_part["all"] = sum(by_part.values(), Counter())
    print(f"{'':10}{'mutants':>10}" + "".join(f"{name:>10}" for name in (*TRIED, "gone", "share")))
    for part, found in by_part.items():
        tried = sum(found[name] for name in TRIED)
        numbers = (sum(found.values()), *(found[name] for name in TRIED), found["gone"])
        share = found["killed"] / max(1, tried)
        print(f"{part:10}" + "".join(f"{number:10}" for number in numbers) + f"{share:10.1%}")
    left = sorted((row for row in rows if row.outcome != "killed"), key=lambda row: (row.file, row.line))
    result = {"count": count, "seed": seed, "parts": by_part, "survivors": [asdict(row) for row in left]}
    (OUT / f"result-{seed}.json").write_text(json.dumps(result, indent=1))
    print(f"survivors with their differences: {(OUT / f'result-{seed}.json').relative_to(ROOT)}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("cover", "run", "report"))
    parser.add_argument("tests", nargs="*", help="for cover: these alone, added to what is known")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of tests for one mutant")
    parser.add_argument("--again", action="store_true", help="only what has survived so far")
    args = parser.parse_args()
    os.chdir(ROOT)
    if args.what == "cover":
        return cover(args.tests)
    if args.what == "run":
        os.environ["MUTANTS_BUDGET"] = str(args.budget)
        return run(args.count, args.seed, args.jobs, args.again)
    return report(args.count, args.seed)


if __name__ == "__main__":
    raise SystemExit(main())
