"""Changes every handler over lanes and every family of the simulated GPU's engine, and counts what the tests notice.

`python tests/simgpu/mutation.py --json build/simgpu_mutants.json` tries all changes of families and `--most` (14) of
each handler, which takes half an hour on an idle machine, and prints how many are noticed; `--again` tries only those
that the file says nobody noticed. `--page docs/simgpu_mutants.md` writes those that remain, with what they are taken
for (`mutants_judged.py`). `--draw 300 --seed 7` tries 300 changes of all that handlers and families have, drawn anew,
the same number of each; `--keep` adds to what the file has.
`docs/simgpu_instructions.md` is made of the same file by `variants.py`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import family_mutants
import mutants_page
from handler_mutants import JUDGED, mutants, survivors

PARTS = 4  # of a module of families, each a piece of work


def _lanes(job: tuple[str, int]) -> tuple[str, str, int, list[str]]:
    return ("handlers", job[0], *survivors(*job))


def _family(job: tuple[str, int]) -> tuple[str, str, int, list[str]]:
    count, alive = family_mutants.judged(job[0], PARTS, job[1])
    return "families", job[0], count, [str(change) for change in alive]


def _afresh(args: argparse.Namespace, pool: Any) -> Iterator[tuple[str, str, int, list[str]]]:
    if args.only != "handlers":
        modules = [name for name in family_mutants.MODULES if re.search(args.match, name)]
        jobs = [(module, n) for module in modules for n in range(PARTS)]
        yield from pool.map(_family, jobs)
    if args.only != "families":
        yield from pool.map(_lanes, [(n, args.most) for n in JUDGED if re.search(args.match, n)])


def _drawn_lanes(job: tuple[str, list[int]]) -> tuple[str, str, int, list[str]]:
    return ("handlers", job[0], *survivors(job[0], places=job[1]))


def _drawn_family(job: tuple[str, list[int]]) -> tuple[str, str, int, list[str]]:
    count, alive = family_mutants.judged_at(*job)
    return "families", job[0], count, [str(change) for change in alive]


def _drawn(args: argparse.Namespace, pool: Any) -> Iterator[tuple[str, str, int, list[str]]]:
    """Every change is as likely as every other, whatever handler or module it is in."""
    for kind, names, all_of, work in (
        ("families", family_mutants.MODULES, family_mutants.changes, _drawn_family),
        ("handlers", JUDGED, mutants, _drawn_lanes),
    ):
        if args.only in (kind, None):
            places = [
                (name, n) for name in names if re.search(args.match, name) for n in range(len(all_of(name)))
            ]
            chosen = random.Random(f"{kind} {args.seed}").sample(places, min(args.draw, len(places)))
            jobs = [
                (name, [n for _, n in some]) for name, some in groupby(sorted(chosen), key=lambda one: one[0])
            ]
            yield from pool.map(work, jobs)


def _again(found: dict[str, Any], pool: Any) -> None:
    """Tries the survivors of families once more."""
    jobs = [(module, entry["alive"]) for module, entry in found["families"].items()]
    for (module, _), alive in zip(jobs, pool.map(family_mutants.still_alive, *zip(*jobs))):
        found["families"][module]["alive"] = alive


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=14, metavar="N", help="changes of each handler (14)")
    parser.add_argument(
        "--draw", type=int, default=0, metavar="N", help="so many changes drawn from all instead"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--keep", action="store_true", help="add to what the file has")
    parser.add_argument("--only", choices=("handlers", "families"))
    parser.add_argument(
        "--match",
        default="",
        metavar="REGEX",
        help="only these handlers and families; figures are theirs alone",
    )
    parser.add_argument("--json", metavar="FILE", default="build/simgpu_mutants.json", help="what was found")
    parser.add_argument("--again", action="store_true", help="only what the file says nobody noticed")
    parser.add_argument("--show", action="store_true", help="nothing is tried: what the file says")
    parser.add_argument("--page", metavar="FILE", help="writes the survivors and what they are taken for")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    args = parser.parse_args()
    path = Path(args.json)
    found = json.loads(path.read_text()) if path.exists() and (args.again or args.show or args.keep) else {}
    if not args.show:
        if args.only != "handlers":
            family_mutants.reached()
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:  # says so when a process dies
            if args.again:
                _again(found, pool)
            several = _drawn(args, pool) if args.draw else _afresh(args, pool)
            for kind, name, count, left in () if args.again else several:
                entry = found.setdefault(kind, {}).setdefault(name, {"tried": 0, "alive": []})
                entry["tried"] += count
                entry["alive"] += left
                print(f"{name:24} {count - len(left):4} of {count:4}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1))
    print(mutants_page.summary(found))
    if args.page:
        Path(args.page).write_text(mutants_page.page(found))


if __name__ == "__main__":
    main()
