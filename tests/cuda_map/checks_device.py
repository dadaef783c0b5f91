"""Checks of `torch.cuda` and of random numbers."""

import ctypes
import threading
import time

import torch
import torch.nn.functional as F
from checks_common import raises


def one_gpu_is_there():
    assert torch.cuda.is_available()
    assert torch.cuda.is_initialized()
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
    assert torch.backends.cuda.is_built()
    torch.cuda.init()
    torch.cuda.set_device(0)
    torch.cuda.set_device("cuda:0")


def the_name_behind_torch_cuda():
    assert torch._C._cuda_getDevice() == 0
    assert torch._C._cuda_getDeviceCount() == 1
    assert torch._C._cuda_getCurrentRawStream(0) == 0


def properties_of_the_target():
    found = torch.cuda.get_device_properties(0)
    assert torch.cuda.get_device_capability() == (found.major, found.minor) >= (8, 0)
    assert torch.cuda.get_device_name(0) == found.name
    for name in ("total_memory", "warp_size", "shared_memory_per_block_optin", "L2_cache_size"):
        assert getattr(found, name) > 0
    assert torch.cuda.get_arch_list() == [f"sm_{found.major}{found.minor}"]
    assert torch.cuda.is_bf16_supported()
    assert torch.version.cuda


def devices_as_contexts():
    with (
        torch.cuda.device(0),
        torch.cuda.device("cuda:0"),
        torch.cuda.device_of(torch.ones(1, device="cuda")),
    ):
        assert torch.cuda.current_device() == 0


def streams():
    stream = torch.cuda.Stream()
    assert stream != torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        x = torch.ones(3, device="cuda")
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.current_stream().wait_stream(stream)
    stream.wait_event(stream.record_event())
    stream.synchronize()
    assert stream.query()
    assert isinstance(stream, torch.Stream)
    x.record_stream(stream)
    assert torch.cuda.default_stream().cuda_stream == 0


def streams_are_of_a_thread():
    seen = []
    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream().cuda_stream))
        thread.start()
        thread.join()
    assert seen == [0]


def events():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(1000, device="cuda").sum()
    end.record(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0
    assert end.query()
    raises(RuntimeError, "enable_timing", lambda: torch.cuda.Event().elapsed_time(end))


def events_of_any_device():
    start, end = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    start.record()
    time.sleep(0.002)
    end.record(torch.accelerator.current_stream())
    end.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 2
    assert start.device.type == "cuda"


def events_in_backward_and_streams():
    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.cuda.stream(torch.cuda.Stream()):
        y = (x * 2 + x).sum()
    y.backward()
    assert x.grad.tolist() == [3] * 3


def ranges_for_tools():
    assert torch.cuda.nvtx.range_push("outer") == 0
    assert torch.cuda.nvtx.range_pop() == 0
    torch.cuda.nvtx.mark("here")
    with torch.cuda.nvtx.range("inner"):
        pass


def memory_statistics():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 1 << 20
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() - before == 1 << 20
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] >= 1 << 20
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert "Allocated memory" in torch.cuda.memory_summary()
    assert torch.cuda.memory_reserved() >= 0


def runtime_library():
    assert torch.cuda.cudart().cudaProfilerStart() == 0
    torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStop())
    torch.cuda.profiler.start()


def memory_by_address():
    address = torch.cuda.caching_allocator_alloc(64)
    assert address
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.get_stream_from_external(5).cuda_stream == 5


def nvml():
    library = ctypes.CDLL("libnvidia-ml.so.1")
    assert library.nvmlInit_v2() == 0
    count, handle, major, minor = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(handle)) == 0
    library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    name = ctypes.create_string_buffer(96)
    library.nvmlDeviceGetName(handle, name, ctypes.c_uint(96))
    assert (count.value, name.value.decode()) == (1, torch.cuda.get_device_name())
    assert (major.value, minor.value) == torch.cuda.get_device_capability()
    assert not hasattr(library, "nvmlUnheardOf")
    assert torch.cuda._device_count_nvml() == 1
    raises(OSError, "libnonsense", lambda: ctypes.CDLL("libnonsense.so"))


def accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert (torch.accelerator.device_count(), torch.accelerator.current_device_index()) == (1, 0)
    torch.accelerator.synchronize()
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.current_stream().device.type == "cuda"
    assert torch.accelerator.memory_allocated() >= 0
    assert torch.get_device_module() is torch.cuda


def memory_history():
    torch.cuda.memory._record_memory_history(enabled=None)
    assert torch.cuda.memory_snapshot() == []


def seeds():
    torch.cuda.manual_seed(3)
    x = torch.randn(4, device="cuda")
    torch.cuda.manual_seed_all(3)
    assert torch.equal(x, torch.randn(4, device="cuda"))
    torch.manual_seed(3)
    assert torch.equal(x, torch.randn(4, device="cuda"))


def seeds_are_apart_from_the_cpus():
    torch.manual_seed(0)
    x = torch.rand(3)
    torch.manual_seed(0)
    torch.cuda.manual_seed(9)
    torch.rand(3, device="cuda")
    F.dropout(torch.ones(8, device="cuda"))
    assert torch.equal(x, torch.rand(3))


def states_of_random_numbers():
    state = torch.cuda.get_rng_state()
    x = (torch.rand(3, device="cuda"), F.dropout(torch.ones(30, device="cuda")))
    torch.cuda.set_rng_state(state)
    y = (torch.rand(3, device="cuda"), F.dropout(torch.ones(30, device="cuda")))
    assert all(torch.equal(a, b) for a, b in zip(x, y))
    assert len(torch.cuda.get_rng_state_all()) == 1
    with torch.random.fork_rng(devices=[0]):
        torch.cuda.manual_seed(1)
    assert torch.cuda.initial_seed() != 1


def generators():
    generator = torch.Generator(device="cuda").manual_seed(5)
    assert generator.device.type == "cuda"
    x = torch.randn(3, device="cuda", generator=generator)
    generator.manual_seed(5)
    assert torch.equal(x, torch.randn(3, device="cuda", generator=generator))
    assert isinstance(torch.default_generator, torch.Generator)
    assert isinstance(generator, torch.Generator)
    assert torch.randperm(5, generator=generator, device="cuda").is_cuda
    other = generator.clone_state()
    assert torch.equal(
        torch.rand(3, device="cuda", generator=other), torch.rand(3, device="cuda", generator=generator)
    )


def states_are_a_seed_and_an_offset():
    """As kernels that draw for themselves take them: they read both and move the offset on."""
    generator = torch.cuda.default_generators[0]
    torch.cuda.manual_seed(11)
    torch.rand(3, device="cuda")
    state = generator.get_state()
    seed, offset = state.view(torch.int64).tolist()
    assert (seed, state.shape) == (11, (16,))
    assert offset > 0
    assert generator.get_offset() == offset
    x = torch.rand(3, device="cuda")
    state.view(torch.int64)[1] += 8
    generator.set_state(state)
    assert not torch.equal(x, torch.rand(3, device="cuda"))
    generator.set_offset(offset)
    assert torch.equal(x, torch.rand(3, device="cuda"))
    raises(RuntimeError, "wrong size", lambda: generator.set_state(torch.get_rng_state()))
    raises(RuntimeError, "found 'cpu'", lambda: torch.rand(3, device="cuda", generator=torch.Generator()))


def draws_differ():
    torch.cuda.manual_seed(4)
    x = torch.stack([torch.rand(500, device="cuda") for _ in range(20)])
    assert x.unique().numel() > 9900
    assert abs(x.mean().item() - 0.5) < 0.02
    assert abs((x[:-1] * x[1:]).mean().item() - 0.25) < 0.02


def default_generators():
    generator = torch.cuda.default_generators[0]
    assert generator.device.type == "cuda"
    generator.manual_seed(2)
    assert generator.initial_seed() == torch.cuda.initial_seed() == 2
    assert generator.get_state().shape == torch.cuda.get_rng_state().shape


def products_of_nvidias_library():
    """As Triton's own package calls them, and a tutorial of it: B is transposed, sums are single precision."""
    from triton import runtime
    from triton._C.libtriton import nvidia

    library = nvidia.cublas.CublasLt(torch.empty(1024, device="cuda", dtype=torch.uint8))
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn):
        if kind == torch.float8_e4m3fn and runtime.driver.active.get_current_target().arch == 80:
            continue  # `test_sim_cublas.py`
        a, b = (torch.randint(-3, 4, shape, device="cuda").float() for shape in ((8, 64), (16, 64)))
        c, d = torch.empty(8, 16, device="cuda"), torch.zeros(8, 16, device="cuda")
        library.matmul(a.to(kind), b.to(kind), c)
        assert torch.equal(c, a @ b.T)
        library.gemm(a.to(kind), b.to(kind), c, d, 2.0, 0.5)
        assert torch.equal(d, 2.5 * c)
    raises(RuntimeError, "M x K, N x K and M x N", lambda: library.matmul(a, b.T, c))
    raises(RuntimeError, "not torch.float64", lambda: library.matmul(a.double(), b.double(), c))
