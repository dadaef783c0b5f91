"""Code that was changed for a test runs in a process of its own: what it writes astray harms nobody else."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
_CALL = "import json, sys, {module}; print(json.dumps({module}.{function}(*json.loads(sys.argv[1]))))"


def apart(module, function, *arguments):
    """What a function of a module beside this one returns, by way of JSON."""
    paths = [str(HERE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", _CALL.format(module=module, function=function), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
