"""Checks of CUDA graphs: what is captured is done again on the same memory, and a capture itself changes nothing."""

import torch
import torch.nn.functional as F
import triton
from checks_common import add_one, captured, raises, viewing


def graphs_are_replayed():
    x, count = torch.zeros(4, device="cuda"), torch.zeros(2, device="cuda")

    def work():
        assert torch.cuda.is_current_stream_capturing()
        y = torch.empty_like(x)
        add_one[(1,)](x * 2, y, 4, BLOCK=4)
        count[0].add_(1)
        return torch.stack([y, y.view(2, 2).t().reshape(4)])

    graph, out = captured(work)
    assert not torch.cuda.is_current_stream_capturing()
    for turn in (1, 2, 3):
        x.copy_(torch.arange(4.0) * turn)
        graph.replay()
        assert out[0].tolist() == [2 * turn * i + 1 for i in range(4)]
        assert out[1].tolist() == [2 * turn * i + 1 for i in (0, 2, 1, 3)]
        assert count.tolist() == [turn, 0]


def a_capture_changes_nothing():
    x, y, z = torch.arange(8.0, device="cuda"), torch.ones(8, device="cuda"), torch.ones(8, device="cuda")
    torch.cuda.manual_seed(1)
    state = torch.cuda.get_rng_state()
    w, alias = torch.ones(8, device="cuda"), viewing("graphs")

    def work():
        x[2:4].zero_()
        x.view(2, 4)[1].mul_(7)
        y.copy_(x)
        add_one[(1,)](x, z, 8, BLOCK=8)
        alias(w).zero_()
        F.dropout(x, 0.5)
        torch.add(x, 1, out=y)

    captured(work)
    assert x.tolist() == list(range(8))
    assert y.tolist() == z.tolist() == w.tolist() == [1] * 8
    assert torch.equal(state, torch.cuda.get_rng_state())


def graphs_keep_what_they_need():
    def make():
        weight = torch.full((3,), 5.0, device="cuda")
        return captured(lambda: (weight * 2) + weight)

    graph, out = make()
    junk = [torch.full((3,), -1.0, device="cuda") for _ in range(50)]
    out.zero_()
    graph.replay()
    assert out.tolist() == [15] * 3
    del junk


def random_numbers_of_graphs_differ():
    x = torch.ones(1000, device="cuda")
    graph, out = captured(lambda: F.dropout(x, 0.5))
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append(out.clone())
    assert not torch.equal(*seen)
    assert 300 < int((seen[0] == 0).sum()) < 700


def graphs_cannot_wait():
    x = torch.ones(3, device="cuda")
    for work in (lambda: x.sum().item(), lambda: x.cpu(), lambda: x.nonzero(), lambda: x[x > 0]):
        raises(RuntimeError, "not permitted when stream is capturing", lambda work=work: captured(work))
        assert not torch.cuda.is_current_stream_capturing()
    raises(RuntimeError, "without a preceding successful capture", torch.cuda.CUDAGraph().replay)


def graphs_copy_to_pinned_memory():
    x, there = torch.ones(3, device="cuda"), torch.zeros(3).pin_memory()
    graph, _ = captured(lambda: there.copy_(x * 3, non_blocking=True))
    there.zero_()
    graph.replay()
    assert there.tolist() == [3] * 3


def whole_steps_of_training_in_a_graph():
    torch.manual_seed(3)
    module = torch.nn.Linear(4, 2).cuda()
    other = torch.nn.Linear(4, 2).cuda()
    other.load_state_dict(module.state_dict())
    x = torch.randn(5, 4, device="cuda")

    def step(of, optimizer):
        optimizer.zero_grad(set_to_none=False)
        of(x).square().sum().backward()
        optimizer.step()

    plain, graphed = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (module, other))
    for m, o in ((module, plain), (other, graphed)):
        step(m, o)
    graph, _ = captured(lambda: step(other, graphed))
    for _ in range(3):
        step(module, plain)
        graph.replay()
    torch.testing.assert_close(module.weight, other.weight)


def graphed_callables():
    torch.manual_seed(4)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).cuda()
    x = torch.randn(3, 4, device="cuda", requires_grad=True)
    plain = module(x)
    plain.square().sum().backward()
    want, weight = x.grad.clone(), module[0].weight.grad.clone()
    x.grad = None
    module.zero_grad()
    found = torch.cuda.make_graphed_callables(module, (torch.randn_like(x).requires_grad_(),))(x)
    found.square().sum().backward()
    torch.testing.assert_close(found, plain)
    torch.testing.assert_close(x.grad, want)
    torch.testing.assert_close(module[0].weight.grad, weight)


def graphs_in_benchmarks():
    x = torch.ones(64, device="cuda")
    assert triton.testing.do_bench_cudagraph(lambda: add_one[(1,)](x, x, 64, BLOCK=64), rep=2) > 0
