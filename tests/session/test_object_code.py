"""What the object code says: nothing changes without probes, and with them work stays between its clocks."""

import re
import subprocess
import sys
from pathlib import Path

import session_kernels as K

import tileprobe
from tileprobe.targets.cpu.clock_source import ticks
from tileprobe.targets.cpu.codegen.clock import is_x86
from tileprobe.targets.cpu.loader import assembly

HERE = Path(__file__).parent
DIGEST = """
import hashlib, os, sys, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
os.environ["TRITON_DEFAULT_BACKEND"] = "cpu"
sys.path.insert(0, {here!r})
import session_kernels as K
x, out = K.arrays(2)
{session}
kernel = K.loop_kernel[(2,)](x, out, 3, BLOCK=K.BLOCK)
print(hashlib.sha256(kernel.asm["obj"]).hexdigest(), hashlib.sha256(kernel.asm["llir"].encode()).hexdigest())
"""


# instruction -> the stage of `stages_kernel` it belongs to; a maximum that minds NaN is a comparison
STAGES = {
    r"rdtsc": "clock",
    r"(?:max|cmplt|cmpunord)[ps][sd]": "max",
    r"(?:sqrt|add)[ps][sd]": "sqrt",
    r"div[ps][sd]": "div",
}


def digest(session):
    text = DIGEST.format(here=str(HERE), session=session)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_without_probes_the_object_code_is_the_same_as_without_a_session():
    """In a session of its own, after one, and in a process that never heard of one: byte for byte."""
    alone = digest("")
    inside = digest(
        "import tileprobe; s = tileprobe.profile(); s.__enter__(); K.loop_kernel[(2,)](x, out, 3, BLOCK=K.BLOCK)"
    )
    elsewhere = digest(
        "import tileprobe\nwith tileprobe.profile('x*', take=1) as s:\n    s.patterns = ('*',)"
    )
    assert alone == inside == elsewhere


def probed_assembly(kernel, *args):
    with tileprobe.profile(min_cost=0.0, alternate=False) as session:
        K.launch(kernel, 2, *args)
    return assembly(session.trace.kernels[0].ir["llir"])


def test_work_stays_between_its_two_clocks():
    """The machine code of a kernel whose stages use different instructions: each lies between its own two
    reads of the counter, down to the last scalar of a reduction."""
    if not is_x86():
        return  # the instructions below are x86's
    text = probed_assembly(K.stages_kernel)
    found = re.findall(rf"^\s+v?({'|'.join(STAGES)})\b", text, re.MULTILINE)
    order = [
        next(stage for pattern, stage in STAGES.items() if re.fullmatch(pattern, word)) for word in found
    ]
    steps = [word for n, word in enumerate(order) if n == 0 or word != order[n - 1]]
    assert steps == ["clock", "max", "clock", "sqrt", "clock", "div", "clock"]


def test_a_record_is_a_counter_read_and_one_store():
    """From a read of the counter to its store: two halves put together, no call, branch or division."""
    if not is_x86():
        return
    record = re.search(r"\trdtsc\n((?:.*\n){8})", probed_assembly(K.stages_kernel))
    assert record is not None
    words = [line.split("\t")[1] for line in record.group(1).splitlines() if line.startswith("\t")]
    assert {"shlq", "orq", "movq"} <= set(words)
    assert not [
        word for word in words[: words.index("movq")] if word.startswith(("call", "j", "div", "idiv"))
    ]


def test_the_counter_runs():
    assert ticks() < ticks()
