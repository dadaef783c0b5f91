"""What one of torch's operators costs on the mapped device, beside the same one on the CPU: microseconds a call.

    python -m benchmarks.cuda_map [--seconds 4]

Tensors are small, so that the way to the kernel is what is measured. Both sides run in turns in one process; the best
and the median of many turns are printed. There is no floor: a figure for docs/cuda-scripts.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from typing import Any

from benchmarks._common import alternate, save

CALLS = 200  # of one timing


def operators(torch: Any, device: str) -> dict[str, Callable[[], Any]]:
    x, y = torch.ones(64, device=device), torch.ones(64, device=device)
    square = torch.ones(16, 16, device=device)
    half = torch.ones(16, 16, device=device, dtype=torch.float16)
    weight = torch.ones(64, device=device)
    return {
        "view": lambda: x.view(8, 8),
        "empty": lambda: torch.empty(64, device=device),
        "multiply, in place": lambda: x.mul_(1),
        "add": lambda: x + y,
        "where": lambda: torch.where(x > 0, x, y),
        "product 16 x 16": lambda: square @ square,
        "product 16 x 16, f16": lambda: half @ half,
        "layer norm": lambda: torch.nn.functional.layer_norm(x, (64,), weight),
        "item": lambda: x[0].item(),
    }


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="for each operator")
    args = parser.parse_args(words)
    try:
        import torch
    except ImportError:
        print("left out: it needs torch")
        return 0
    import tileprobe

    tileprobe.use("cpu", cuda=True)
    torch.set_num_threads(1)
    rows = []
    print(f"{'operator':24}{'on the CPU':>14}{'on cuda':>14}{'more':>14}   us a call, best (median)")
    with torch.no_grad():
        sides = operators(torch, "cpu"), operators(torch, "cuda")
        for name in sides[0]:
            times = alternate([_many(side[name]) for side in sides], args.seconds)
            best = [min(part) / CALLS * 1e6 for part in times]
            middle = [statistics.median(part) / CALLS * 1e6 for part in times]
            pairs = [*zip(best, middle), (best[1] - best[0], middle[1] - middle[0])]
            print(f"{name:24}" + "".join(f"{f'{a:.2f} ({b:.2f})':>14}" for a, b in pairs), flush=True)
            rows.append({"operator": name, "cpu_us": best[0], "cuda_us": best[1], "medians_us": middle})
    more = statistics.median(row["cuda_us"] - row["cpu_us"] for row in rows)
    print(f"an operator costs {more:.1f} us more on cuda than on the CPU, in the median of these")
    save("cuda_map", {"operators": rows})
    return 0


def _many(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


if __name__ == "__main__":
    sys.exit(main())
