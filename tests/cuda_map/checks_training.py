"""Checks of what training scripts do: autocast, scaled gradients, checkpoints, files, compilers."""

import io
import warnings

import torch
import torch.nn.functional as F


def autocast():
    x = torch.randn(4, 4, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (x @ x).dtype is torch.bfloat16
            assert torch.softmax(x @ x, -1).dtype is torch.float32
            assert torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype is torch.float32


def autocast_by_its_old_name():
    x = torch.randn(4, 4, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with torch.cuda.amp.autocast():
            assert (x @ x).dtype is torch.float16


def autocast_in_functions():
    seen = []

    class Keep(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
            return x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            return gradient

    x = torch.ones(2, dtype=torch.float16, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        Keep.apply(x).sum().backward()
    assert seen == [(torch.float32, False)]


def scaled_gradients():
    module = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    assert scaler.is_enabled()
    before = module.weight.detach().clone()
    scaler.scale(module(torch.ones(2, 4, device="cuda")).sum()).backward()
    scaler.unscale_(optimizer)
    assert module.bias.grad.tolist() == [2] * 4
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, module.weight)


def scaled_gradients_skip_infinities():
    weight = torch.ones(2, device="cuda", requires_grad=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1]
    assert scaler.get_scale() == 4.0


def checkpoints_of_activations():
    from torch.utils.checkpoint import checkpoint

    for reentrant in (True, False):
        x = torch.ones(16, device="cuda", requires_grad=True)
        seen = []

        def layer(value, seen=seen):
            mask = F.dropout(value, 0.5)
            seen.append(mask.detach().clone())
            return mask.sin()

        checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
        assert torch.equal(seen[0], seen[1])  # the state of the random numbers was brought back
        assert x.grad.is_cuda


def a_step_of_training():
    for optimizer_type in (torch.optim.AdamW, torch.optim.SGD):
        module = torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(72, 4)
        )
        module.to("cuda")
        optimizer = optimizer_type(module.parameters(), lr=0.01)
        x, y = torch.randn(8, 1, 8, 8, device="cuda"), torch.randint(4, (8,), device="cuda")
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]


def attention():
    q, k, v = (torch.randn(1, 2, 16, 8, device="cuda", requires_grad=True) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.sum().backward()
    want = F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu(), is_causal=True)
    torch.testing.assert_close(out.cpu(), want, rtol=1e-4, atol=1e-5)
    assert q.grad.is_cuda
    assert torch._fused_sdp_choice(q, k, v) == torch.nn.attention.SDPBackend.MATH.value


def recurrent_layers():
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        module = kind(4, 5, batch_first=True)
        x = torch.randn(2, 3, 4, requires_grad=True)
        want, _ = module(x)
        want.square().sum().backward()
        wanted, x.grad = [x.grad, *(p.grad for p in module.parameters())], None
        module.zero_grad()
        module.cuda()
        y = x.detach().cuda().requires_grad_()
        out, _ = module(y)
        out.square().sum().backward()
        torch.testing.assert_close(out.cpu(), want)
        for a, b in zip([y.grad, *(p.grad for p in module.parameters())], wanted):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


def loaders_of_data():
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.arange(6.0)), batch_size=2, pin_memory=True)
    assert sum(batch.cuda(non_blocking=True).sum().item() for (batch,) in loader) == 15


def saving_and_loading():
    buffer = io.BytesIO()
    torch.save({"x": torch.arange(3.0, device="cuda"), "y": torch.ones(2)}, buffer)
    for where, kinds in (("cuda", "cuda cuda"), (None, "cuda cpu"), ("cpu", "cpu cpu")):
        buffer.seek(0)
        found = torch.load(buffer, map_location=where)
        assert f"{found['x'].device.type} {found['y'].device.type}" == kinds
        assert found["x"].tolist() == [0, 1, 2]


def states_of_modules():
    module, other = torch.nn.Linear(2, 2).cuda(), torch.nn.Linear(2, 2).cuda()
    other.load_state_dict(module.state_dict())
    assert torch.equal(module.weight, other.weight)
    other.load_state_dict({name: value.cpu() for name, value in module.state_dict().items()})
    assert other.weight.is_cuda


def dynamo_can_be_imported():
    import torch._dynamo

    assert torch._dynamo.list_backends() is not None


def compiled_without_code():
    for backend in ("eager", "aot_eager"):
        x = torch.ones(4, device="cuda", requires_grad=True)
        out = torch.compile(lambda v: v.sin() + 1, backend=backend)(x)
        out.sum().backward()
        assert out.is_cuda
        assert x.grad.is_cuda


def fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3, 4, device="cuda")
        assert (x @ x.t()).device == torch.device("cuda", 0)


def functional_transforms():
    x = torch.randn(3, device="cuda")
    assert torch.func.vmap(torch.func.grad(lambda v: v.sin()))(x).is_cuda


def scripted_modules():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.jit.script(torch.nn.Linear(2, 2).cuda())(torch.ones(1, 2, device="cuda")).is_cuda


def modes_of_the_script_see_their_own_calls():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    functions, operators = [], []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            functions.append(func)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            operators.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, device="cuda")
    with Functions(), Operators():
        _ = x * 2
    assert len(functions) == 1
    assert operators == ["aten.mul.Tensor"]


def convolutions():
    torch.manual_seed(1)
    for options in ({"groups": 4}, {"groups": 2, "dilation": 2}, {"stride": 2, "padding": 1}):
        for kind in (torch.nn.Conv2d, torch.nn.ConvTranspose2d):
            module = kind(4, 4, 3, **options)
            x = torch.randn(2, 4, 9, 9)
            want = module(x)
            want.sum().backward()
            weight = module.weight.grad.clone()
            module.zero_grad()
            found = module.cuda()(x.cuda())
            found.sum().backward()
            torch.testing.assert_close(found.cpu(), want)
            torch.testing.assert_close(module.weight.grad.cpu(), weight)


def parallel_over_one_gpu():
    module = torch.nn.DataParallel(torch.nn.Linear(3, 2).cuda())
    x = torch.ones(4, 3, requires_grad=True)
    module(x).sum().backward()
    assert module.module.weight.grad.is_cuda
    assert torch.nn.parallel.comm.gather([torch.ones(2, device="cuda")], destination="cpu").is_cpu
    assert torch.nn.parallel.comm.broadcast(torch.ones(2), [0])[0].is_cuda
