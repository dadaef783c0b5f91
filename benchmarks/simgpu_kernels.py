"""The kernels of this repository's tests and examples on a simulated GPU, held against the same expected results.

    python -m benchmarks.simgpu_kernels [--target sim:h100] [--each 2] [--match test_ops]

The tests of the CPU target that compute something are run with the simulated GPU as the target, as they are. A test
that launches nothing there (it is about the CPU's own parts) does not count; one whose kernel Triton itself does not
compile for that GPU is counted apart, and so is one that asks for what GPUs do otherwise than the CPU target
(`_DIFFERS` says why). What comes out wrong runs again with `--check`: where that finds a race (a program that reads
what it stores elsewhere in the same tensor: the CPU target keeps the order, warps of a GPU do not) no result is
promised. By default two cases of each test function are drawn by the seed; `--each 0 --sample 0` is all of them. The
run fails if anything is refused or wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from typing import Any

from benchmarks import _suite
from benchmarks._common import ROOT, save

SUITES = ["tests/cpu"]
_NOT = r"tests/cpu/(runtime|schedule|interpret|codegen)/"  # of the CPU's own parts: no kernel of theirs is meant here
_FROM_TRITON = (  # what Triton's compiler says of kernels that this GPU cannot have, or ptxas
    r"CompilationError", r"not supported (?:in|on|for) this architecture", r"OutOfResources", r"PTXASError",
)  # fmt: skip
_DIFFERS = {  # tests of what the CPU target promises and GPUs do not
    "test_order_of_reductions.py::test_order": "Triton's reductions on GPUs take lanes in no order",
    "test_ops_elementwise.py::test_floats[float16]": "the sign of a remainder of zero is Triton's own on GPUs",
    "test_ops_elementwise.py::test_floats[bfloat16]": "the sign of a remainder of zero is Triton's own on GPUs",
    "test_ops_elementwise.py::test_math[float32]": "Triton's functions for GPUs approximate, and flush",
    "test_ops_dot.py::test_types[float8e4nv": "H100's tensor cores add fp8 products with 13 bits",
    "test_scans_along.py::test_a_division": "a division is not associative, and lanes of a GPU meet by halves",
    "test_same_tensor.py::test_elementwise_in_place": "how many stages the CPU target makes",
    "test_errors.py": "texts of errors, and what the CPU target refuses",
    "test_inductor.py": "torch.compile for a CPU while `cuda` is mapped; test_sim_inductor.py is for this",
}
_REFUSED = r"does not know the instruction|UnsupportedError|NotImplementedError"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    _suite.add_arguments(parser)
    parser.set_defaults(each=2)
    args = parser.parse_args(words)
    args.match = f"^(?!{_NOT}).*(?:{args.match})"
    os.environ["TILEPROBE_TESTS_HERE"] = "1"  # kernels that would run in processes of their own, on the CPU
    chosen = _suite.collected(ROOT, SUITES, args)
    ends = _suite.run(ROOT, chosen, args.target, args.seconds)
    judged = {test: verdict(test, end) for test, end in ends.items()}
    doubtful = [test for test, what in judged.items() if what == "wrong"]
    checked = _suite.run(ROOT, doubtful, args.target, args.seconds, "--check") if doubtful else {}
    judged |= {test: "races" for test, end in checked.items() if "RaceFault" in end.get("said", "")}
    for line in table(ends, judged):
        print(line)
    for test, what in judged.items():
        if what == "differs":
            why = next(why for name, why in _DIFFERS.items() if name in test)
            print(f"  differs: {test}: {why}")
        if what in ("refused", "wrong", "too long"):
            print(f"  {what}: {test}: {_suite.kind(ends[test])}")
    save(
        f"simgpu-kernels-{args.target.replace(':', '-')}",
        {"tests": [{"test": test, "verdict": judged[test], **end} for test, end in ends.items()]},
    )
    return int(any(what in ("refused", "wrong", "too long") for what in judged.values()))


def verdict(test: str, end: dict[str, Any]) -> str:
    """What a test says of the kernels that it launched."""
    said = end.get("said", "")
    if end["ended"] == "skipped":
        return "skipped"
    if end["ended"] == "passed":
        return "right" if end.get("launched") else "no launch"
    if any(name in test for name in _DIFFERS):
        return "differs"
    if any(re.search(pattern, said) for pattern in _FROM_TRITON):
        return "not compiled"
    if re.search(_REFUSED, said):
        return "refused"
    if re.search("took longer than", said) or end["ended"] == "too long":
        return "too long"
    return "wrong"


def table(ends: dict[str, Any], judged: dict[str, str]) -> list[str]:
    """One line a file: tests by verdict, and how many different kernels were launched how often."""
    columns = (
        "right",
        "wrong",
        "refused",
        "too long",
        "not compiled",
        "races",
        "differs",
        "no launch",
        "skipped",
    )
    files = sorted({test.partition("::")[0] for test in ends})
    lines = [f"{'':44}" + "".join(f"{name:>13}" for name in columns) + f"{'kernels':>10}{'launches':>10}"]
    whole: Counter[str] = Counter()
    for name in [*files, ""]:
        mine = [test for test in ends if test.startswith(name)]
        found = Counter(judged[test] for test in mine)
        launches = Counter()
        for test in mine:
            launches.update(ends[test].get("launched", {}))
        whole = found
        lines.append(
            f"{name or 'all':44}" + "".join(f"{found[c]:13,}" for c in columns)
            + f"{len(launches):10,}{sum(launches.values()):10,}"
        )  # fmt: skip
    ran = sum(whole[c] for c in ("right", "wrong", "refused", "too long"))
    lines.append(
        f"{whole['right']:,} of {ran:,} tests whose kernels compile for this GPU come to the right result"
    )
    return lines


if __name__ == "__main__":
    sys.exit(main())
