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


{arguments}
kernel[({grid},)]({names}{options})
{prints}
'''


def _inputs(case: Case, tensor: Tensor) -> str:
    if tensor.same_as:
        return f"{tensor.name} = {tensor.same_as}"
    bits = contents(case, tensor)
    values = "np.zeros" if not bits.any() else "np.array"
    what = f"({len(bits)}" if not bits.any() else f"({np.array2string(bits, separator=',', threshold=10**9)}"
    torch_type = {"int1": "bool"}.get(tensor.dtype, TYPES[tensor.dtype].torch)
    return f"{tensor.name} = tensor({values}{what}, dtype=np.{bits.dtype.name}), torch.{torch_type})"


def script(case: Case, verdict: Verdict, expected: dict[str, np.ndarray]) -> str:
    arguments = [
        f"{a.name} = {a.value}" if isinstance(a, Scalar) else _inputs(case, a) for a in case.arguments
    ]
    shown = [a for a in case.arguments if isinstance(a, Tensor) and not a.same_as]
    prints = [
        f'print("{a.name} has     ", {a.name}.tolist())\nprint("{a.name} expected", {expected[a.name].tolist()})'
        for a in shown
        if a.name in expected and (expected[a.name] != contents(case, a)).any()
    ]
    settings = " ".join(f"{k}={v}" for k, v in ISAS.get(verdict.isa, {}).items())
    return _TEMPLATE.format(
        kind=verdict.kind,
        isa=verdict.isa,
        seed=case.seed,
        words=verdict.words.replace("\\", "/").replace('"""', "'''"),
        environment=f" ({settings} in the environment)" if settings else "",
        source=case.source.replace("import triton\n", "import triton\n", 1),
        arguments="\n".join(arguments),
        grid=case.grid,
        names=", ".join(a.name for a in case.arguments),
        options=", enable_fp_fusion=False",
        prints="\n".join(prints),
    )


def write(folder: Path, case: Case, verdict: Verdict, expected: dict[str, np.ndarray]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verdict.kind.replace(' ', '-')}-{case.seed}.py"
    path.write_text(script(case, verdict, expected))
    return path
