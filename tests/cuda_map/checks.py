"""What scripts written for CUDA do, in small: `tileprobe exec checks.py` runs every check of the `checks_*` files and
prints what came of each as JSON, for test_cuda_scripts.py."""

import contextlib
import inspect
import io
import json
import sys
import traceback

import checks_device
import checks_graphs
import checks_tensors
import checks_training
import torch

CHECKS = {
    name: value
    for module in (checks_tensors, checks_device, checks_graphs, checks_training)
    for name, value in vars(module).items()
    if inspect.isfunction(value) and value.__module__ == module.__name__
}


def main() -> None:
    found = {}
    for name, check in CHECKS.items():
        torch.manual_seed(0)
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                check()
            found[name] = ""
        except BaseException:
            found[name] = traceback.format_exc()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
