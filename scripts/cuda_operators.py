"""torch's own samples for its operators, on `cuda` under the map against the CPU: which differ, and which fail.

    pip install expecttest
    python scripts/cuda_operators.py [--samples 3] [--half]

With `--half`, samples in f16 and bf16 on `cuda` against f32 on the CPU, rounded once, as a GPU does it: which are off
by two units in the last place and more.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections import Counter
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

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


def half_outcome(operator: Any, sample: Any, kind: torch.dtype) -> str:
    """The same for one of the narrow types."""

    def given(device: str, to: torch.dtype) -> Any:
        def convert(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
                return value.detach().to(kind).to(to).to(device)
            return moved(value, device)

        return tree_map(convert, ((sample.input, *sample.args), sample.kwargs))

    def run(device: str, to: torch.dtype) -> Any:
        torch.manual_seed(0)
        args, kwargs = given(device, to)
        return operator.op(*args, **kwargs)

    try:
        want = run("cpu", torch.float32)
    except Exception:
        return "unsupported"
    try:
        found = run("cuda", kind)
    except Exception as error:
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
    pairs = zip(tree_flatten(found)[0], tree_flatten(want)[0])
    worst = max((units(a.cpu(), b, kind) for a, b in pairs if comparable(a, b, kind)), default=0.0)
    return f"off: by {worst:.3g} units in the last place" if worst > 1.5 else ""


def comparable(a: Any, b: Any, kind: torch.dtype) -> bool:
    tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    return tensors and a.dtype is kind and a.shape == b.shape and a.numel() > 0 and b.is_floating_point()


def units(found: torch.Tensor, want: torch.Tensor, kind: torch.dtype) -> float:
    """How far apart, in units in the last place of the larger; NaN and infinities have to agree."""
    a, b = found.float(), want.to(kind).float()
    size = torch.maximum(a.abs(), b.abs()).clamp(min=torch.finfo(kind).tiny)
    far = (a - b).abs() / (torch.exp2(torch.floor(torch.log2(size))) * torch.finfo(kind).eps)
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, torch.where(far.isfinite(), far, float("inf"))).max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=3, help="of each operator")
    parser.add_argument("--half", action="store_true", help="f16 and bf16, against rounding once")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    tileprobe.use("cpu", cuda=True)
    from torch.testing._internal.common_methods_invocations import op_db

    kinds = (torch.float16, torch.bfloat16) if args.half else (None,)
    counts: Counter[str] = Counter()
    for operator, kind in itertools.product(op_db, kinds):
        for sample in list(operator.sample_inputs("cpu", torch.float32))[: args.samples]:
            text = outcome(operator, sample) if kind is None else half_outcome(operator, sample, kind)
            counts[text.partition(":")[0] or "agree"] += 1
            if text not in ("", "unsupported"):
                print(f"{operator.name} {operator.variant_test_name} {kind or ''}: {text}")
                break
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))


if __name__ == "__main__":
    main()
