"""torch's own samples for its operators, on `cuda` under the map against the CPU: which differ, and which fail.

pip install expecttest
python scripts/cuda_operators.py [how many samples of each operator]
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from typing import Any

import torch
from torch.utils._pytree import tree_map

import tileprobe


def moved(value: Any, device: str) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if isinstance(value, torch.device):
        return torch.device(device)
    return device if value in ("cpu", "cuda") else value


def outcome(operator: Any, sample: Any) -> str:
    """Empty where both agree; `unsupported` where the CPU refuses the sample."""

    def run(device: str) -> Any:
        given = tree_map(lambda v: moved(v, device), ((sample.input, *sample.args), sample.kwargs))
        return operator.op(*given[0], **given[1])

    try:
        want = run("cpu")
    except Exception:
        return "unsupported"
    try:
        found = run("cuda")
        if isinstance(want, torch.Tensor) and not found.is_cuda:
            return "differs: the result is not on cuda"
        torch.testing.assert_close(tree_map(lambda v: moved(v, "cpu"), found), want, equal_nan=True)
    except AssertionError as error:
        return f"differs: {' '.join(str(error).split())[:120]}"
    except Exception as error:
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    return ""


def main() -> None:
    warnings.simplefilter("ignore")
    tileprobe.use("cpu", cuda=True)
    from torch.testing._internal.common_methods_invocations import op_db

    most = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    counts: Counter[str] = Counter()
    for operator in op_db:
        for sample in list(operator.sample_inputs("cpu", torch.float32))[:most]:
            text = outcome(operator, sample)
            counts[text.partition(":")[0] or "agree"] += 1
            if text not in ("", "unsupported"):
                print(f"{operator.name} {operator.variant_test_name}: {text}")
                break
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))


if __name__ == "__main__":
    main()
