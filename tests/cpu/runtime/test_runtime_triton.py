"""What else of Triton a user expects to work: tuning, warm-up, hooks, caches, benchmarks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import runtime_kernels as kernels
import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileprobe


def wrapped(n=1000):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    return [tileprobe.array(a) for a in (x, y, np.zeros(n, np.float32))]


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 256) for w in (4, 8)],
    key=["n"],
    reset_to_zero=["out"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def accumulate(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets) if EVEN else tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(out, tl.sum(values, axis=0))


def test_autotune_and_heuristics():
    for n in (1024, 1000):
        x, out = np.ones(n, np.float32), np.zeros(1, np.float32)
        accumulate[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](
            tileprobe.array(x), tileprobe.array(out), n
        )
        assert out[0] == n
        assert accumulate.best_config.kwargs["BLOCK"] in (64, 256)
    assert len(accumulate.cache) == 2


def test_warmup_compiles_without_running():
    x, y, out = wrapped()
    compiled = kernels.add.warmup(x, y, out, 1000, BLOCK=128, grid=(8,))
    assert not out.numpy().any()
    assert set(compiled.asm) >= {"ttir", "tile", "llir", "obj"}
    assert compiled.asm["obj"][:4] == b"\x7fELF"
    compiled[(8, 1, 1)](x, y, out, 1000, 128)
    np.testing.assert_array_equal(out.numpy(), x.numpy() + 1)


def test_compile_for_the_target():
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(kernels.add, signature, constexprs={"BLOCK": 128})
    compiled = triton.compile(source, target=GPUTarget("cpu", 0, 1), options={"num_warps": 2})
    x, y, out = wrapped()
    compiled[(8, 1, 1)](x, y, out, 1000, 128)
    np.testing.assert_array_equal(out.numpy(), x.numpy() + 1)


def test_compile_from_a_ttir_file(tmp_path):
    compiled = kernels.add.warmup(*wrapped(), 1000, BLOCK=128, grid=(8,))
    path = tmp_path / "add.ttir"
    path.write_text(compiled.asm["ttir"])
    again = triton.compile(str(path), target=GPUTarget("cpu", 0, 1))
    x, y, out = wrapped()
    again[(8, 1, 1)](x, y, out, 1000)
    np.testing.assert_array_equal(out.numpy(), x.numpy() + 1)


def test_launch_hooks_see_every_launch():
    seen = []
    enter = lambda metadata: seen.append(("enter", metadata.get()["name"]))
    leave = lambda metadata: seen.append(("exit", metadata.get()["name"]))
    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(leave)
    try:
        kernels.add[(8,)](*wrapped(), 1000, BLOCK=128)
        with pytest.raises(TypeError):
            kernels.add[(8,)](np.zeros(3), *wrapped()[1:], 1000, BLOCK=128)
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
        knobs.runtime.launch_exit_hook.remove(leave)
    assert seen == [("enter", "add"), ("exit", "add")]


def test_a_hook_may_launch():
    inner = wrapped()
    state = {"busy": False}

    def enter(metadata):
        if not state["busy"]:
            state["busy"] = True
            kernels.add[(8,)](*inner, 1000, BLOCK=128)

    knobs.runtime.launch_enter_hook.add(enter)
    try:
        outer = wrapped()
        kernels.add[(8,)](*outer, 1000, BLOCK=128)
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
    np.testing.assert_array_equal(inner[2].numpy(), outer[2].numpy())


def test_stages_can_be_inspected(fresh_cache):
    names = []

    def inspect(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "inspected", "inspected"
        names.extend(stages)

    knobs.runtime.add_stages_inspection_hook = inspect
    try:
        kernels.add[(8,)](*wrapped(), 1000, BLOCK=128)
    finally:
        knobs.runtime.add_stages_inspection_hook = None
    assert names == ["ttir", "tile", "llir", "obj"]


@pytest.fixture
def fresh_cache(tmp_path):
    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        kernels.add.device_caches.clear()
        yield tmp_path
    kernels.add.device_caches.clear()


def test_preload(fresh_cache):
    data = []
    hook = lambda **kwargs: data.append(kwargs["compile"]["specialization_data"])
    knobs.runtime.jit_cache_hook = hook
    try:
        first = kernels.add.warmup(*wrapped(), 1000, BLOCK=128, grid=(8,))
        kernels.add.device_caches.clear()
        again = kernels.add.preload(data[0])
        assert again.hash == first.hash
    finally:
        knobs.runtime.jit_cache_hook = None


def test_bounds_checks_have_a_variant_of_their_own(fresh_cache):
    plain = kernels.add[(8,)](*wrapped(), 1000, BLOCK=128)
    with tileprobe.use("cpu", check_bounds=True):
        checked = kernels.add[(8,)](*wrapped(), 1000, BLOCK=128)
    assert plain.hash != checked.hash
    assert kernels.add[(8,)](*wrapped(), 1000, BLOCK=128) is plain


def test_gpu_options_share_one_object(fresh_cache):
    one = kernels.add[(8,)](*wrapped(), 1000, BLOCK=128, num_warps=4)
    two = kernels.add[(8,)](*wrapped(), 1000, BLOCK=128, num_warps=8, num_stages=4)
    assert one.hash == two.hash


SCRIPT = """
import json, sys, numpy as np, tileprobe
import runtime_kernels as kernels
from triton import knobs
hits = []
knobs.compilation.listener = lambda **kwargs: hits.append(kwargs["cache_hit"])
out = np.zeros(1000, np.float32)
x = np.ones(1000, np.float32)
kernels.add[(8,)](*map(tileprobe.array, (x, x, out)), 1000, BLOCK=128)
print(json.dumps({"hits": hits, "right": bool((out == 2).all()), "torch": "torch" in sys.modules}))
"""


def fresh_process(cache: Path, **environment: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "TRITON_CACHE_DIR": str(cache), "TRITON_DEFAULT_BACKEND": "cpu", **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_cache_outlives_the_process(tmp_path):
    assert fresh_process(tmp_path) == {"hits": [False], "right": True, "torch": False}
    assert fresh_process(tmp_path) == {"hits": [True], "right": True, "torch": False}
    # other code for another machine
    assert fresh_process(tmp_path, TILEPROBE_VECTOR_BYTES="16")["hits"] == [False]
    assert fresh_process(tmp_path, TILEPROBE_CPU="x86-64-v2")["right"]


def test_do_bench():
    args = wrapped()
    times = triton.testing.do_bench(
        lambda: kernels.add[(8,)](*args, 1000, BLOCK=128), warmup=1, rep=5, return_mode="all"
    )
    assert all(t > 0 for t in times)


def test_threads_launch_at_once():
    from concurrent.futures import ThreadPoolExecutor

    def work(seed):
        x, y, out = wrapped(5000)
        x.raw[:] = seed
        for _ in range(50):
            out.zero_()
            kernels.add[(40,)](x, y, out, 5000, BLOCK=128)
            assert (out.numpy() == seed + 1).all()
        return True

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, range(8)))


def test_globals_may_not_change():
    global FACTOR
    out = np.zeros(1, np.float32)
    scaled[(1,)](tileprobe.array(out))
    assert out[0] == 3.0
    FACTOR = tl.constexpr(4.0)
    with pytest.raises(RuntimeError, match="FACTOR has changed"):
        scaled[(1,)](tileprobe.array(out))


FACTOR = tl.constexpr(3.0)


@triton.jit
def scaled(out):
    tl.store(out, FACTOR)


def test_the_driver_is_the_cpu():
    driver = triton.runtime.driver.active
    assert driver.get_current_target().backend == "cpu"
    assert driver.get_device_interface().current_device() == "cpu"
    torch = pytest.importorskip("torch")
    assert driver.get_active_torch_device() == torch.device("cpu")


def test_use_refuses_what_is_not_there():
    with pytest.raises(tileprobe.TileProbeError, match="no target 'abacus'"):
        tileprobe.use("abacus")
    with pytest.raises(tileprobe.TileProbeError, match="threads: no setting of the target 'cuda'"):
        tileprobe.use("cuda", threads=2)


def test_use_is_a_context_manager():
    from tileprobe.targets.cpu import pool

    before = pool.wanted_threads()
    with tileprobe.use("cpu", threads=3):
        assert pool.current().threads == 3
        x, y, out = wrapped()
        kernels.add[(8,)](x, y, out, 1000, BLOCK=128)
    assert pool.wanted_threads() == before
    np.testing.assert_array_equal(out.numpy(), x.numpy() + 1)


def test_gluon_is_refused():
    from triton.backends.compiler import Language

    backend = triton.compiler.make_backend(GPUTarget("cpu", 0, 1))
    with pytest.raises(tileprobe.TileProbeError, match="Gluon"):
        backend.add_stages({}, backend.parse_options({}), Language.GLUON)


MEMORY = """
import resource, numpy as np, tileprobe
import runtime_kernels as kernels
x, y, out = (tileprobe.array(np.zeros(1000, np.float32)) for _ in range(3))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kernels.add[(8,)](x, y, out, 1000, BLOCK=256)
before = peak()
kernels.add[(3_000_000,)](x, y, out, 1000, BLOCK=256)
print(peak() - before)
"""


def test_memory_does_not_grow_with_the_grid(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_BACKEND": "cpu"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 1024  # kilobytes


def test_with_a_gpu_the_cpu_stands_aside(monkeypatch):
    from triton.backends import backends

    driver = backends["cpu"].driver
    monkeypatch.delenv("TRITON_DEFAULT_BACKEND", raising=False)
    monkeypatch.setattr(backends["amd"].driver, "is_active", staticmethod(lambda: False))
    monkeypatch.setattr(backends["nvidia"].driver, "is_active", staticmethod(lambda: False))
    assert driver.is_active()
    monkeypatch.setattr(backends["nvidia"].driver, "is_active", staticmethod(lambda: True))
    assert not driver.is_active()
    monkeypatch.setenv("TRITON_DEFAULT_BACKEND", "cpu")
    assert driver.is_active()


def test_forked_children_launch():
    kernels.add[(8,)](*wrapped(), 1000, BLOCK=128)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            x, y, out = wrapped()
            kernels.add[(8,)](x, y, out, 1000, BLOCK=128)  # compiled by the parent
            kernels.add[(8,)](x, y, out, 1000, BLOCK=512)  # compiled here
            code = 0 if (out.numpy() == x.numpy() + 1).all() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_kernels_become_arm_code(monkeypatch, tmp_path):
    """Nothing in generated LLVM IR belongs to x86, but for what keeps out of LLVM's faults there: compiled for NEON."""
    import llvmlite.binding as llvm

    from tileprobe.targets.cpu.checkup_kernel import row_softmax
    from tileprobe.targets.cpu.codegen import memory

    monkeypatch.setattr(memory, "_confuses_halves", lambda: False)
    monkeypatch.setattr(memory, "_merges_truncation", lambda: False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # nobody else is to find this code

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu="neoverse-n1", opt=2)
    x, y, out = wrapped()
    # functions of their own: the others may have been compiled in this process already
    add = triton.jit(kernels.add.fn).warmup(x, y, out, 1000, BLOCK=128, grid=(8,))
    softmax = triton.jit(row_softmax.fn).warmup(x, out, 1000, BLOCK=1024, grid=(1,))
    for compiled, instruction in ((add, "fadd\tv"), (softmax, "fmla\tv")):
        module = llvm.parse_assembly(compiled.asm["llir"])
        module.triple, module.data_layout = triple, str(machine.target_data)
        assert instruction in machine.emit_assembly(module)


def test_occupancy_computed_as_on_a_gpu_is_not_none():
    """Triton's softmax tutorial sizes its grid from registers and shared memory."""
    compiled = kernels.add.warmup(*wrapped(), 1000, BLOCK=128, grid=(8,))
    compiled._init_handles()
    driver = triton.runtime.driver.active
    properties = driver.utils.get_device_properties(driver.get_current_device())
    threads = properties["warpSize"] * compiled.metadata.num_warps
    by_registers = properties["max_num_regs"] // (compiled.n_regs * threads)
    by_memory = properties["max_shared_mem"] // compiled.metadata.shared
    assert min(by_registers, by_memory) * properties["multiprocessor_count"] > 0
