"""A finding as a script that stands alone: the kernel, its inputs, what was expected and what came out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fuzz.case import Case, contents
from fuzz.judge import Verdict
from fuzz.process import ISAS
from fuzz.program import Scalar, Tensor
from fuzz.types import TYPES

_TEMPLATE = '''"""{kind} ({isa}), seed {seed}: {words}

Run it as it is for the CPU target{environment}, or with TRITON_INTERPRET=1 for the reference.
"""

import numpy as np
import torch
{source}

def tensor(bits, dtype):
    return torch.from_numpy(bits.copy()).view(dtype)


def check(name, tensor, expected):
    got, want = tensor.view(torch.uint8).numpy().view(expected.dtype), expected
    for i in np.flatnonzero(got != want)[:16]:
        print(f"{{name}}[{{i}}] is {{got[i]}}, not {{want[i]}}")


{arguments}
kernel[({grid},)]({names}{options})
{checks}
'''


def _inputs(case: Case, tensor: Tensor) -> str:
    if tensor.same_as:
        return f"{tensor.name} = {tensor.same_as}"
    torch_type = {"int1": "bool"}.get(tensor.dtype, TYPES[tensor.dtype].torch)
    return f"{tensor.name} = tensor({_array(contents(case, tensor))}, torch.{torch_type})"


def _array(bits: np.ndarray) -> str:
    """Bits as text. Small floats are shown as the integers that hold their bits."""
    if not bits.any():
        return f"np.zeros({len(bits)}, np.{bits.dtype.name})"
    return f"np.array({bits.tolist()}, np.{bits.dtype.name})"


def script(case: Case, verdict: Verdict, expected: dict[str, np.ndarray]) -> str:
    arguments = [
        f"{a.name} = {a.value}" if isinstance(a, Scalar) else _inputs(case, a) for a in case.arguments
    ]
    checks = [
        f'check("{a.name}", {a.name}, {_array(expected[a.name])})'
        for a in case.arguments
        if isinstance(a, Tensor) and a.name in expected
    ]
    settings = " ".join(f"{k}={v}" for k, v in ISAS.get(verdict.isa, {}).items())
    return _TEMPLATE.format(
        kind=verdict.kind,
        isa=verdict.isa,
        seed=case.seed,
        words=verdict.words.replace("\\", "/").replace('"""', "'''"),
        environment=f" ({settings} in the environment)" if settings else "",
        source=case.source,
        arguments="\n".join(arguments),
        grid=case.grid,
        names=", ".join(a.name for a in case.arguments),
        options=", enable_fp_fusion=False",
        checks="\n".join(checks),
    )


def write(folder: Path, case: Case, verdict: Verdict, expected: dict[str, np.ndarray]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verdict.kind.replace(' ', '-')}-{case.seed}.py"
    path.write_text(script(case, verdict, expected))
    return path
