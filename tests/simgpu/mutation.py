"""Changes every handler over lanes and every family of the simulated GPU's engine, and counts what the tests notice.

`python tests/simgpu/mutation.py --most 20 --json build/simgpu_mutants.json` tries at most so many changes of each (all
without `--most`, which takes an hour) and names those that nothing notices. `docs/simgpu_instructions.md` is made of
its result by `variants.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from family_mutants import MODULES, judged
from handler_mutants import JUDGED, survivors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--most", type=int, metavar="N", help="changes of each handler; of a module eight times that"
    )
    parser.add_argument("--only", choices=("handlers", "families"))
    parser.add_argument("--json", metavar="FILE", help="what was found, added to what the file has")
    args = parser.parse_args()
    path = Path(args.json) if args.json else None
    found = json.loads(path.read_text()) if path is not None and path.exists() else {}
    work = [] if args.only == "families" else [("handlers", name, survivors, args.most) for name in JUDGED]
    if args.only != "handlers":
        work += [("families", name, judged, args.most and 8 * args.most) for name in MODULES]
    tried = alive = unseen = 0
    for kind, name, judge, most in work:
        count, left = judge(name, most)
        found.setdefault(kind, {})[name] = {"tried": count, "alive": left}
        tried, alive = tried + count, alive + len(left)
        unseen += sum(what.endswith("(?)") for what in left)
        print(f"{name:24} {count - len(left):4} of {count:4}  {'; '.join(left)}", flush=True)
        if path is not None:
            path.write_text(json.dumps(found, indent=1))
    noticed = tried - alive
    print(f"{noticed} of {tried} changes are noticed: {100 * noticed / max(tried, 1):.1f} %")
    print(f"of those that some input shows: {100 * noticed / max(tried - unseen, 1):.1f} %")


if __name__ == "__main__":
    main()
