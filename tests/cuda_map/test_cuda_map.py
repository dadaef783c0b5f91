"""Turning the map of devices on and off, the commands that use it, and whose properties scripts see."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.targets.base import CommonTarget, CudaProperties
from tileprobe.targets.catalog import available, find

torch = pytest.importorskip("torch")


def run(code, *command, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(code))
    words = [sys.executable, *command, str(path)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)


KERNEL = """
    import torch, triton, triton.language as tl

    @triton.jit
    def scale_kernel(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, at < n) * 3, at < n)
"""


def test_everything_is_undone(tmp_path):
    """The names of torch's modules, its dispatcher and what its C++ side finds are as before."""
    code = """
        import torch, tileprobe
        import torch.cuda.nvtx, torch.cuda.streams, torch.cuda.graphs

        def names():
            owners = torch._C, torch.cuda, torch, torch.cuda.streams, torch.cuda.graphs, torch.cuda.nvtx, torch.version
            return [{k: id(v) for k, v in vars(o).items() if k != "__warningregistry__"} for o in owners]

        def answer(do):
            try:
                return repr(do())
            except Exception:  # its words may change: torch notes that CUDA was once initialised
                return "refused"

        def behaviour():
            return [answer(do) for do in (
                lambda: torch.cuda.is_available(), lambda: torch.cuda.device_count(), lambda: torch.device(0),
                lambda: torch.ones(2, device="cuda"), lambda: torch.accelerator.is_available(),
                lambda: torch.ones(2).pin_memory(), lambda: torch.Generator("cuda"), lambda: torch.ones(2).sum(),
                lambda: torch.UntypedStorage(4, device="cuda"), lambda: torch.cuda.Stream(),
            )]

        behaviour()
        before = names(), behaviour()
        for _ in range(2):
            with tileprobe.use("cpu", cuda=True):
                assert torch.ones(2, device="cuda").is_cuda
                with tileprobe.use("cpu", cuda=True):  # one map for the process: the inner one changes nothing
                    pass
                assert torch.ones(2, device="cuda").is_cuda
                kept = torch.arange(3.0, device="cuda")
        after = names(), behaviour()
        assert after[1] == before[1], (before[1], after[1])
        for a, b in zip(before[0], after[0]):
            assert a == b, {k for k in a.keys() | b.keys() if a.get(k) != b.get(k)}
        assert kept.data_ptr()  # a tensor may outlive the map; its memory stays, operators are gone
        print("undone")
    """
    done = run(code, tmp_path=tmp_path)
    assert done.stdout.strip() == "undone", done.stderr


def test_leaving_by_an_exception_undoes_it(tmp_path):
    code = """
        import torch, tileprobe
        try:
            with tileprobe.use("cpu", cuda=True):
                raise KeyError
        except KeyError:
            print(torch.cuda.is_available())
    """
    assert run(code, tmp_path=tmp_path).stdout.strip() == "False"


def test_a_script_that_never_leaves_ends_well(tmp_path):
    code = """
        import tileprobe, torch
        tileprobe.use("cpu", cuda=True)
        x = torch.ones(4, device="cuda", requires_grad=True)
        x.sum().backward()
        print(x.grad.device)
    """
    done = run(code, tmp_path=tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "cuda:0", "")


def test_torch_compile_makes_triton_kernels_for_the_target(tmp_path):
    """Inductor's code for a GPU, compiled and launched by the CPU target, with the gradients of eager."""
    code = """
        import os
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.getcwd()
        import torch
        from triton import knobs

        names = []
        knobs.runtime.launch_enter_hook.add(lambda metadata: names.append(metadata.get()["name"]))
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)).cuda()
        x = torch.randn(8, 16, device="cuda")
        want = model(x)
        want.square().sum().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        out = torch.compile(model)(x)
        out.square().sum().backward()
        torch.testing.assert_close(out, want)
        for p, g in zip(model.parameters(), grads):
            torch.testing.assert_close(p.grad, g, rtol=1e-4, atol=1e-4)
        print(out.device, len(names) > 1)
    """
    done = run(code, "-m", "tileprobe", "exec", tmp_path=tmp_path)
    assert done.stdout.strip() == "cuda:0 True", done.stderr


def test_torch_compile_replays_graphs_where_they_are_asked_for(tmp_path):
    code = """
        import os
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.getcwd()
        import torch

        replays = []
        plain = torch.cuda.CUDAGraph.replay
        torch.cuda.CUDAGraph.replay = lambda self: (replays.append(1), plain(self))[1]
        f = lambda x: torch.softmax(x * 2, -1) + 1
        compiled = torch.compile(f, mode="reduce-overhead")
        for _ in range(3):
            x = torch.randn(4, 40, device="cuda")
            torch.testing.assert_close(compiled(x), f(x))
        print(len(replays) > 1)
    """
    done = run(code, "-m", "tileprobe", "exec", tmp_path=tmp_path)
    assert done.stdout.strip() == "True", done.stderr


def test_replayed_launches_are_profiled(tmp_path):
    code = (
        KERNEL
        + """
    x = torch.ones(100, device="cuda")
    scale_kernel[(1,)](x, 100, BLOCK=128)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale_kernel[(1,)](x, 100, BLOCK=128)
    for _ in range(3):
        graph.replay()
    print(x[0].item())
    """
    )
    words = ("-m", "tileprobe", "run", "--device-map", "cuda=cpu", "--quiet", "--json", "r.json")
    done = run(code, *words, tmp_path=tmp_path)
    assert done.stdout.split()[0] == "81.0", done.stderr
    (kernel,) = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert kernel["launches"] == 5  # the captured one is one of them


def test_exec_runs_without_a_session(tmp_path):
    code = (
        KERNEL
        + """
    import sys
    x = torch.ones(100, device="cuda")
    scale_kernel[(1,)](x, 100, BLOCK=128)
    print(x.sum().item())
    sys.exit(7)
    """
    )
    done = run(code, "-m", "tileprobe", "exec", tmp_path=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (7, "300.0"), done.stderr


CHILDREN = {
    "spawn": """
        import os, torch, torch.multiprocessing as mp
        def work(rank):
            os.write(1, b"child %.1f\\n" % torch.ones(2, device="cuda").sum().item())  # in one piece
        if __name__ == "__main__":
            mp.spawn(work, nprocs=2)
    """,
    "subprocess": """
        import subprocess, sys
        code = "import torch; print('child', torch.ones(2).cuda().sum().item(), flush=True)"
        for _ in range(2):
            subprocess.run([sys.executable, "-c", code], check=True)
    """,
    "loader": """
        import torch
        from torch.utils.data import DataLoader, Dataset
        class Made(Dataset):
            def __len__(self): return 2
            def __getitem__(self, n):
                return torch.ones(2, device="cuda").sum().item()
        if __name__ == "__main__":
            for value in DataLoader(Made(), num_workers=2, batch_size=None, multiprocessing_context="spawn"):
                print("child", value, flush=True)
    """,
}


@pytest.mark.parametrize("way", CHILDREN)
def test_children_have_the_map(way, tmp_path):
    done = run(CHILDREN[way], "-m", "tileprobe", "exec", tmp_path=tmp_path)
    assert done.stdout.splitlines() == ["child 2.0"] * 2, done.stderr


def test_children_use_the_target_and_its_settings(tmp_path):
    """Also without torch; and with `--no-cuda` they have no map."""
    inner = """
        import sys
        from triton.runtime import driver
        print(driver.active.get_current_target().backend, "torch" in sys.modules)
        import torch
        print(torch.cuda.is_available())
    """
    (tmp_path / "inner.py").write_text(textwrap.dedent(inner))
    code = "import subprocess, sys; subprocess.run([sys.executable, 'inner.py'], check=True)"
    words = ["-m", "tileprobe", "exec"]
    done = run(code, *words, "--target", "sim:a100", tmp_path=tmp_path)
    assert done.stdout.split() == ["cuda", "False", "True"], done.stderr
    done = run(code, *words, "--no-cuda", tmp_path=tmp_path)
    assert done.stdout.split() == ["cpu", "False", "False"], done.stderr


def test_workers_of_torchrun_have_the_map(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(2, device='cuda').cpu()\n"
        "dist.all_reduce(x)\n"
        "os.write(1, b'child %.1f\\n' % x[0].item())\n"
        "dist.destroy_process_group()\n"
    )
    words = [
        "-m",
        "tileprobe",
        "exec",
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    command = [sys.executable, *words, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["child 2.0"] * 2, done.stderr


def test_another_target_under_the_map(tmp_path):
    """A simulated machine in a file of its own takes tensors on `cuda` too, and gives its name to them."""
    target = f"{Path(__file__).parents[2] / 'examples' / 'tilesim' / 'tilesim.py'}:TileSim"
    code = (
        KERNEL
        + """
    x = torch.ones(100, device="cuda")
    scale_kernel[(1,)](x, 100, BLOCK=128)
    print(x.sum().item(), torch.cuda.get_device_name())
    """
    )
    done = run(code, "-m", "tileprobe", "exec", "--target", target, tmp_path=tmp_path)
    assert done.stdout.strip() == "300.0 tilesim (tileprobe)", done.stderr


def test_exec_can_leave_torch_alone(tmp_path):
    done = run(
        "import torch; print(torch.cuda.is_available())",
        "-m",
        "tileprobe",
        "exec",
        "--no-cuda",
        tmp_path=tmp_path,
    )
    assert done.stdout.strip() == "False", done.stderr


def test_inspect_under_the_map(tmp_path):
    code = KERNEL + "    scale_kernel[(1,)](torch.ones(8, device='cuda'), 8, BLOCK=8)\n"
    words = ("-m", "tileprobe", "inspect", "--device-map", "cuda=cpu", "--level", "ttir")
    done = run(code, *words, tmp_path=tmp_path)
    assert "tt.func public @scale_kernel" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("run", "--target", "sim:a100"), "on sim:a100"),
        (("inspect", "--target", "cuda:80"), "scale_kernel"),
        (("inspect", "--target", "hip:gfx942"), "scale_kernel"),
    ],
)
def test_a_gpu_that_is_not_here_has_the_map_by_itself(words, text, tmp_path):
    """Also for tensors that are made after torch comes in late; `none` is to have no map."""
    code = KERNEL + "    scale_kernel[(1,)](torch.ones(128, device='cuda'), 128, BLOCK=128)\n"
    done = run(code, "-m", "tileprobe", *words, tmp_path=tmp_path)
    assert (done.returncode, text in done.stdout) == (0, True), done.stderr
    done = run(code, "-m", "tileprobe", *words, "--device-map", "none", tmp_path=tmp_path)
    assert done.returncode != 0 or "ended with 1" in done.stderr
    assert "Torch not compiled with CUDA" in done.stderr


def test_bounds_are_checked_on_the_mapped_device(tmp_path):
    code = (
        "    import tileprobe; tileprobe.use('cpu', cuda=True, check_bounds=True)\n"
        + KERNEL
        + """
    try:
        scale_kernel[(1,)](torch.ones(8, device="cuda"), 99999, BLOCK=1024)
    except Exception as error:
        print("x" in str(error), "outside" in str(error) or "bounds" in str(error))
    """
    )
    done = run(code, tmp_path=tmp_path)
    assert done.stdout.strip() == "True True", done.stderr


class Declared(CommonTarget):
    name = "declared"

    def cuda_properties(self, machine=""):
        return CudaProperties("A made-up GPU", (8, 6), multiprocessors=84, shared_bytes=99 * 1024)


def test_properties_are_the_targets():
    from tileprobe.cuda_map.install import installed

    with installed(Declared().cuda_properties()):
        found = torch.cuda.get_device_properties(0)
        assert torch.cuda.get_device_capability() == (8, 6)
        assert found.multi_processor_count == 84
        assert found.shared_memory_per_block_optin == 99 * 1024
        assert torch.cuda.get_device_name() == "A made-up GPU"
    assert not torch.cuda.is_available()


@pytest.mark.parametrize("target", [target.name for target in available()])
def test_every_target_has_several_multiprocessors(target):
    assert find(target)[0].cuda_properties().multiprocessors > 1


def test_a_torch_built_for_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 0, raising=False)
    with pytest.raises(TileProbeError, match="built for CUDA"):
        tileprobe.use("cpu", cuda=True)


def test_the_order_of_functions_is_read_from_the_headers():
    from tileprobe.cuda_map.native import _order

    base = "virtual ~Base() = default; virtual bool a() const { return false; } virtual int b(int x = 1) const = 0;"
    own = (
        "~Own() override = default; int b(int x) const override { } virtual const std::string& c() const { }"
    )
    assert _order(base, own) == ["~", "~delete", "a", "b", "c"]


def test_a_target_of_ones_own_may_play_a_gpu(tmp_path):
    from tileprobe.cuda_map import mapped

    (tmp_path / "mine.py").write_text(
        "from tileprobe.targets.simgpu.target import SimTarget\n\n\n"
        "class Plays(SimTarget):\n    name = 'mine'\n\n\n"
        "class Does(SimTarget):\n    name, plays_gpu = 'other', False\n"
    )
    assert mapped(None, f"{tmp_path}/mine.py:Plays") and mapped(None, "sim:h100")
    assert not mapped(None, f"{tmp_path}/mine.py:Does") and not mapped(None, "cpu")
    assert not mapped("none", "sim:h100") and mapped("cuda=cpu", "cpu")


def test_the_thread_of_backward_passes_may_finish_before_python_does(monkeypatch):
    from tileprobe.cuda_map import autograd

    slept = []
    monkeypatch.setattr(autograd.time, "sleep", slept.append)
    monkeypatch.setattr(autograd, "_threads", lambda: ["python", "pt_autograd_0"])
    autograd._rest()
    assert slept == [autograd.REST_S]
    monkeypatch.setattr(autograd, "_threads", lambda: ["python"])
    autograd._rest()
    assert len(slept) == 1


def test_threads_have_names():
    from tileprobe.cuda_map.autograd import _threads

    assert len(_threads()) >= 1
