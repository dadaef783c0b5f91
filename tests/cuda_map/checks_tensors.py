"""Checks of tensors on `cuda` (what they say of themselves, everywhere) and of kernels on them."""

import copy
import ctypes
import threading
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing
import triton
from checks_common import add_one, persistent, raises, viewing


def tensors_agree_on_their_device():
    x = torch.ones(3, device="cuda")
    assert (x.device.type, x.is_cuda, x.is_cpu, x.get_device()) == ("cuda", True, False, 0)
    assert x.device == torch.device("cuda:0")
    assert type(x) is torch.Tensor
    assert x.type() == "torch.cuda.FloatTensor"


def operators_keep_the_device():
    x = torch.randn(4, 4, device="cuda")
    for y in (x + 1, x @ x, x.t(), x[0], x.sum(), x.view(-1), x.to(torch.float16), torch.cat([x, x])):
        assert y.is_cuda
        assert y.get_device() == 0


def cpu_tensors_stay_on_the_cpu():
    x = torch.ones(3)
    assert not x.is_cuda
    assert x.device.type == "cpu"
    assert (x + 1).is_cpu


def data_goes_over_and_back():
    x = torch.arange(12.0).view(3, 4).t()
    y = x.cuda()
    assert y.is_cuda
    assert y.stride() == x.stride()
    assert torch.equal(y.cpu(), x)
    y.zero_()
    assert x.sum() == 66  # a copy, as on a GPU


def integer_devices():
    assert torch.device(0) == torch.device("cuda:0")
    for x in (torch.ones(2, device=0), torch.ones(2).to(0), torch.ones(2).cuda(0)):
        assert x.device == torch.device("cuda", 0)
    assert torch.ones(2, device=torch.cuda.current_device()).is_cuda
    assert torch.nn.Linear(2, 2).to(0).weight.is_cuda


def a_second_gpu_is_not_there():
    raises(RuntimeError, "invalid device ordinal", lambda: torch.ones(2, device="cuda:1"))
    raises(RuntimeError, "invalid device ordinal", lambda: torch.cuda.set_device(1))


def devices_do_not_mix():
    raises(RuntimeError, "same device", lambda: torch.ones(3, device="cuda") + torch.ones(3))
    assert (torch.ones(3, device="cuda") + torch.tensor(1.0)).is_cuda


def numpy_wants_the_cpu():
    raises(TypeError, "numpy", lambda: torch.ones(3, device="cuda").numpy())


def views_share_memory():
    x = torch.zeros(4, 4, device="cuda")
    x[1:, 2].fill_(7)
    x.view(16)[0] = 5
    assert x.sum().item() == 26
    assert x[1].data_ptr() == x.data_ptr() + 16
    assert x.t().untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def views_by_operators_of_libraries():
    flat = viewing("tensors")
    x = torch.zeros(2, 3, device="cuda")
    flat(x)[4] = 7
    assert x.tolist() == [[0, 0, 0], [0, 7, 0]]
    assert flat(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    view = flat(torch.full((100,), 3.0, device="cuda"))  # the only owner of its memory now
    assert [torch.zeros(100, device="cuda") for _ in range(5)] and view.tolist() == [3] * 100


def memory_is_real():
    x = torch.arange(4.0, device="cuda")
    assert list((ctypes.c_float * 4).from_address(x.data_ptr())) == [0, 1, 2, 3]


def results_into_out():
    x, out = torch.ones(3, device="cuda"), torch.empty(0, device="cuda")
    assert torch.add(x, 1, out=out) is out
    assert out.tolist() == [2, 2, 2]
    out = torch.empty(3, device="cuda")
    place = out.data_ptr()
    torch.mul(x, 3, out=out)
    assert (out.tolist(), out.data_ptr()) == ([3, 3, 3], place)


def shapes_change_in_place():
    x = torch.arange(6.0, device="cuda").view(2, 3)
    x.t_().unsqueeze_(0)
    assert x.shape == (1, 3, 2)
    x.resize_(20)
    assert x.shape == (20,)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]


def gradients_flow():
    x = torch.randn(5, device="cuda", requires_grad=True)
    (x.sin() * x).sum().backward()
    assert x.grad.is_cuda
    y = x.detach().cpu().requires_grad_()
    (y.sin() * y).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.grad)


def the_map_is_on_in_backward():
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            new = torch.empty(4, device="cuda")
            seen.extend(
                [x.is_cuda, gradient.is_cuda, new.is_cuda, torch.cuda.is_available(), new.device.type]
            )
            out = torch.empty(4, device="cuda")
            add_one[(1,)](gradient.contiguous(), out, 4, BLOCK=4)
            return out

    x = torch.ones(4, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    assert seen == [True, True, True, True, "cuda"]
    assert x.grad.tolist() == [2] * 4


def the_map_is_on_in_threads():
    seen = []

    def work():
        x = torch.ones(4, device="cuda")
        add_one[(1,)](x, x, 4, BLOCK=4)
        seen.append((x.sum().item(), x.is_cuda, x.device.type, torch.cuda.current_device()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(8.0, True, "cuda", 0)]


def float8_and_other_widths():
    for dtype in (
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.bfloat16,
        torch.uint16,
        torch.complex64,
        torch.bool,
    ):
        x = torch.ones(4, device="cuda").to(dtype)
        assert (x.dtype, x.is_cuda) == (dtype, True)
        assert x.cpu().to(torch.float32).tolist() == [1] * 4


def pinned_memory():
    x = torch.ones(4).pin_memory()
    assert x.is_pinned()
    assert x.to("cuda", non_blocking=True).is_cuda
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert x.cuda().to("cpu", non_blocking=True).tolist() == [1] * 4


def default_device():
    torch.set_default_device("cuda")
    try:
        assert torch.ones(2).is_cuda
        assert torch.nn.Linear(2, 2).weight.is_cuda
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert (torch.zeros(2) + 1).is_cuda
    assert torch.ones(2).is_cpu


def old_tensor_types():
    assert torch.cuda.FloatTensor([1, 2]).is_cuda
    assert torch.cuda.LongTensor(3).dtype is torch.int64
    assert isinstance(torch.ones(2, device="cuda"), torch.cuda.FloatTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
    assert torch.ones(2).type("torch.cuda.HalfTensor").is_cuda


def tensors_for_other_processes():
    x = torch.ones(2, device="cuda")
    raises(Exception, "send .cpu", lambda: ForkingPickler.dumps(x))
    assert ForkingPickler.dumps(x.cpu())


def copies_of_modules():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).cuda()
    other = copy.deepcopy(module)
    assert all(p.is_cuda for p in other.parameters())
    assert other[0].weight.data_ptr() != module[0].weight.data_ptr()
    assert torch.equal(other[0].weight, module[0].weight)


def dlpack_and_array_interface():
    x = torch.arange(3.0, device="cuda")
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()
    assert x.__cuda_array_interface__["data"][0] == x.data_ptr()


def conjugates():
    x = torch.tensor([1 + 2j, 3 - 1j], device="cuda")
    assert x.conj().cpu().tolist() == [1 - 2j, 3 + 1j]
    assert x.conj().imag.cpu().tolist() == [-2, 1]
    assert (x.conj() * 2).tolist() == [2 - 4j, 6 + 2j]
    assert torch.fft.ifft(torch.ones(4, device="cuda")).cpu()[0] == 1


def numbers_as_operands():
    assert torch.remainder(torch.tensor([5, 7], device="cuda"), 4).tolist() == [1, 3]
    assert (torch.ones(2, dtype=torch.float16, device="cuda") * 2.5).dtype is torch.float16
    assert (torch.ones((), dtype=torch.float16, device="cuda") * 2.5).dtype is torch.float16
    assert (2 ** torch.ones(2, dtype=torch.int32, device="cuda")).dtype is torch.int32


def printing():
    assert "device='cuda:0'" in repr(torch.ones(2, device="cuda"))


def kernels_launch():
    x = torch.arange(1000.0, device="cuda")
    out = torch.empty_like(x)
    add_one[(8,)](x, out, 1000, BLOCK=128)
    assert torch.equal(out, x + 1)


def grids_by_multiprocessors():
    count = torch.cuda.get_device_properties("cuda").multi_processor_count
    assert count > 1
    out = torch.empty(100, dtype=torch.int32, device="cuda")
    persistent[(count,)](out, 100, PROGRAMS=count)
    assert len(set(out.tolist())) == min(count, 100)


def tritons_device_is_the_mapped_one():
    device = triton.runtime.driver.active.get_active_torch_device()
    assert device == torch.ones(1, device="cuda").device


def operators_registered_for_cuda():
    library = torch.library.Library("checks", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CUDA")
    assert torch.ops.checks.twice(torch.ones(2, device="cuda")).tolist() == [2, 2]
    raises(NotImplementedError, "checks::twice", lambda: torch.ops.checks.twice(torch.ones(2)))


def operators_of_torch_replaced_for_cuda():
    """As libraries do that bring kernels for torch's own operators."""
    seen = []

    def silu(x):
        seen.append(x.device.type)
        out = torch.empty_like(x)
        add_one[(1,)](x, out, x.numel(), BLOCK=16)
        return out

    x = torch.zeros(3, device="cuda")
    library = torch.library.Library("aten", "IMPL")
    library.impl("silu", silu, "CUDA")
    assert torch.nn.functional.silu(x).tolist() == [1, 1, 1]
    library._destroy()
    assert torch.nn.functional.silu(x).tolist() == [0, 0, 0]
    assert seen == ["cuda"]


def custom_operators_for_cuda():
    @torch.library.custom_op("checks::plus", mutates_args=(), device_types="cuda")
    def plus(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        out = torch.empty_like(x)
        add_one[(1,)](x, out, x.numel(), BLOCK=16)
        return out

    assert plus(torch.ones(5, device="cuda")).tolist() == [2] * 5


def operators_written_in_triton():
    @torch.library.triton_op("checks::wrapped", mutates_args={})
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(add_one)[(1,)](x, out, x.numel(), BLOCK=16)
        return out

    assert wrapped(torch.ones(5, device="cuda")).tolist() == [2] * 5


def benchmarks_of_triton():
    x = torch.ones(64, device="cuda")
    assert triton.testing.do_bench(lambda: add_one[(1,)](x, x, 64, BLOCK=64), warmup=1, rep=2) > 0


def operators_where_a_mode_is_not_asked():
    """As Inductor does while it traces: a mode is active, and its calls go past it."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(), torch._C._DisableTorchDispatch():
        x = torch.randn(3, dtype=torch.float16, device="cuda")
        assert type(x) is torch.Tensor
        assert (x + x).shape == (3,)


def halves_are_rounded_once():
    """As on a GPU, whose kernels compute in f32: the CPU's own would round on the way, or take no halves."""
    torch.manual_seed(5)
    for kind in (torch.float16, torch.bfloat16):
        x = torch.randn(40, 30).to(kind)
        y = torch.randn(30, 50).to(kind)
        for do in (
            lambda x, y: torch.nn.functional.logsigmoid(x),
            lambda x, y: torch.log_softmax(x, -1),
            lambda x, y: x @ y,
            lambda x, y: torch.addmm(y[0], x, y),
            lambda x, y: torch.nn.functional.layer_norm(x, (30,)),
            lambda x, y: torch.nn.functional.avg_pool3d(x.view(1, 10, 10, 12), 2),
        ):
            found = do(x.cuda(), y.cuda())
            assert found.dtype is kind
            want = do(x.float(), y.float()).to(kind)
            torch.testing.assert_close(found.cpu(), want, rtol=torch.finfo(kind).eps, atol=1e-4)


def halves_are_rounded_once_in_backward():
    torch.manual_seed(6)
    for do in (
        torch.nn.functional.logsigmoid,
        lambda v: torch.softmax(v, -1),
        lambda v: torch.log_softmax(v, -1),
        lambda v: torch.softmax(v, -1, dtype=torch.float32),
        lambda v: torch.log_softmax(v, -1, dtype=torch.float32),
    ):
        x = torch.randn(50, dtype=torch.float16).cuda().requires_grad_()
        weights = torch.randn(50)
        do(x).mul(weights.cuda().half()).sum().backward()
        wide = x.detach().cpu().float().requires_grad_()
        do(wide).mul(weights.half().float()).sum().backward()
        assert x.grad.dtype is torch.float16
        torch.testing.assert_close(x.grad.cpu(), wide.grad.half(), rtol=2e-3, atol=2e-4)


def sums_of_halves_are_wide():
    x, y = torch.randn(4096, 50).half() * 10, torch.randint(50, (4096,))
    for reduction in ("mean", "sum"):
        want = torch.nn.functional.cross_entropy(x.float(), y, reduction=reduction)
        found = torch.nn.functional.cross_entropy(x.cuda(), y.cuda(), reduction=reduction)
        torch.testing.assert_close(found.cpu(), want.half(), rtol=2e-3, atol=1e-3)


def halves_in_place_and_into_out():
    x, y = torch.randn(8, 4).half(), torch.randn(4, 8).half()
    out = torch.empty(8, 8, dtype=torch.float16, device="cuda")
    place = out.data_ptr()
    torch.mm(x.cuda(), y.cuda(), out=out)
    want = x.float() @ y.float()
    assert torch.equal(out.cpu(), want.half())
    assert out.data_ptr() == place
    out.addmm_(x.cuda(), y.cuda())
    assert torch.equal(out.cpu(), (want.half().float() + want).half())


def halves_with_wide_results():
    x, y = torch.randn(8, 4).half(), torch.randn(4, 8).half()
    want = x.float() @ y.float()
    assert torch.equal(torch.mm(x.cuda(), y.cuda(), out_dtype=torch.float32).cpu(), want)
    out = torch.empty(0, device="cuda")
    found = torch.addmm(torch.ones(8, device="cuda"), x.cuda(), y.cuda(), out_dtype=torch.float32, out=out)
    assert found is out
    torch.testing.assert_close(out.cpu(), want + 1)
    assert torch.softmax(x.cuda(), -1, dtype=torch.float32).dtype is torch.float32
    torch.testing.assert_close(
        torch.softmax(x.cuda(), -1, dtype=torch.float32).cpu(), torch.softmax(x.float(), -1)
    )
