"""Modes and transforms between a program and the device's kernels, compared with CPU."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

pytestmark = pytest.mark.separate


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(2))


def small_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


# ---- Fake tensors


def test_fake_tensors_keep_their_device(device):
    with FakeTensorMode():
        a = torch.empty(3, 4, device=device)
        assert (a @ a.T).device == device
        assert (a + torch.ones(())).device == device  # a scalar on CPU
        assert a.cpu().device.type == "cpu"
        assert torch.arange(4, device=device.type).device == device
        assert nn.Linear(4, 2, device=device)(a).device == device
        q = torch.randn(1, 2, 3, 4, device=device)
        assert functional.scaled_dot_product_attention(q, q, q).device == device
        lstm = nn.LSTM(3, 3, device=device)
        assert lstm(torch.randn(2, 1, 3, device=device))[0].device == device
        with pytest.raises(RuntimeError, match=r"two different devices|same device"):
            a + torch.ones(3, 4)


def test_fake_tensors_of_real_ones(device, x):
    mode = FakeTensorMode()
    fake = mode.from_tensor(x.to(device))
    assert isinstance(fake, FakeTensor)
    assert (fake.device, fake.shape) == (device, x.shape)
    with mode:
        assert (fake * 2).sum().device == device


def test_files_are_loaded_as_fake_tensors(device, x):
    file = io.BytesIO()
    torch.save(x.to(device), file)
    file.seek(0)
    with FakeTensorMode():
        loaded = torch.load(file)
    assert isinstance(loaded, FakeTensor)
    assert loaded.device == device


# ---- Graphs


def kinds(graph_module):
    return [str(node.target) for node in graph_module.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_graphs_have_the_operators_of_cpu(device, x, mode):
    def step(x, weight):
        hidden = functional.layer_norm(functional.linear(x, weight), (4,))
        return functional.gelu(hidden).softmax(-1).sum()

    def derivative(x, weight):
        return torch.func.grad(step, argnums=1)(x, weight)

    weight = torch.randn(4, 4)
    ours = make_fx(derivative, tracing_mode=mode)(x.to(device), weight.to(device))
    assert kinds(ours) == kinds(make_fx(derivative, tracing_mode=mode)(x, weight))
    torch.testing.assert_close(
        ours(x.to(device), weight.to(device)).cpu(), derivative(x, weight), atol=1e-5, rtol=1e-4
    )


def test_functionalized_programs_write_nothing_in_place(device, x):
    def program(t):
        y = t.clone()
        y[0].add_(1)
        y.view(-1)[:2].mul_(3)
        return y

    ours = make_fx(torch.func.functionalize(program))(x.to(device))
    assert not any(kind.endswith("_.Tensor") for kind in kinds(ours))
    assert torch.equal(ours(x.to(device)).cpu(), program(x))
    assert torch.equal(torch.func.functionalize(program)(x.to(device)).cpu(), program(x))


def test_exported_programs(device, x):
    network = small_network().to(device)
    exported = torch.export.export(network, (x.to(device),))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    assert torch.equal(loaded(x.to(device)).cpu(), network(x.to(device)).cpu())
    assert exported.run_decompositions() is not None


def test_dispatch_modes_see_what_runs_on_cpu(device, x):
    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen.append(str(function))
            return function(*args, **(kwargs or {}))

    def names(place):
        t = x.to(place).requires_grad_()
        with Names() as mode:
            (t @ t.T).relu().sum().backward()
        return mode.seen

    assert names(device) == names("cpu")


# ---- torch.func and forward mode


def test_transforms(device, x):
    ours = x.to(device)

    def close(found, expected):
        torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=1e-4)

    close(torch.func.vmap(torch.func.grad(lambda v: v.sin().sum()))(ours), x.cos())
    close(torch.func.jacrev(torch.exp)(ours[0]), torch.diag(x[0].exp()))
    close(torch.func.jacfwd(torch.exp)(ours[0]), torch.diag(x[0].exp()))
    close(torch.func.hessian(lambda v: (v**3).sum())(ours[0]), torch.diag(6 * x[0]))
    close(torch.func.jvp(torch.sin, (ours,), (torch.ones_like(ours),))[1], x.cos())
    close(torch.func.vjp(torch.sin, ours)[1](torch.ones_like(ours))[0], x.cos())
    close(torch.func.linearize(torch.sin, ours)[1](torch.ones_like(ours)), x.cos())
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(ours, torch.ones_like(ours))
        close(forward_ad.unpack_dual(dual.sin()).tangent, x.cos())


def test_random_numbers_below_vmap(device):
    x = torch.zeros(3, 50).to(device)

    def rows(randomness):
        return torch.func.vmap(lambda v: v + torch.randn_like(v), randomness=randomness)(x).cpu()

    same, different = rows("same"), rows("different")
    assert torch.equal(same[0], same[1])
    assert not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="called random operation"):
        rows("error")


def test_gradcheck_in_all_modes(device):
    x = torch.randn(3, dtype=torch.float64).to(device).requires_grad_()
    assert torch.autograd.gradcheck(
        torch.sin, x, check_forward_ad=True, check_batched_grad=True,
        check_batched_forward_grad=True,
    )  # fmt: skip
    assert torch.autograd.gradgradcheck(torch.sin, x)


# ---- Counting and checking


def test_flops_are_counted_as_on_cpu(device):
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    images, heads = torch.randn(2, 1, 4, 4), torch.randn(1, 2, 5, 4)

    def count(place):
        ours = copy.deepcopy(network).to(place)
        q = heads.to(place).requires_grad_()
        with FlopCounterMode(display=False) as counter:
            ours(images.to(place)).sum().backward()
            torch.bmm(q[0], q[0].mT)
            functional.scaled_dot_product_attention(q, q, q).sum().backward()
        return counter.get_total_flops()

    assert count(device) == count("cpu") > 0


def test_anomalies_name_the_forward_pass(device):
    x = torch.zeros(2).to(device).requires_grad_()
    with torch.autograd.detect_anomaly():
        loss = (x.sqrt() * 0).sum()
        with (
            pytest.warns(UserWarning, match="Traceback of forward call"),
            pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan"),
        ):
            loss.backward()


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms(device, deterministic):
    assert torch.isnan(torch.empty(3, device=device).cpu()).all()
    assert torch.isnan(torch.empty(2, device=device).resize_(4).cpu()[2:]).all()
    places, values = torch.tensor([0, 0, 1]), torch.tensor([0.1, 0.2, 0.3])
    zeros = torch.zeros(4)
    for function in (
        lambda z, i, v: z.index_add(0, i, v),
        lambda z, i, v: z.scatter_add(0, i, v),
        lambda z, i, v: z.index_put((i,), v, accumulate=True),
    ):
        found = function(zeros.to(device), places.to(device), values.to(device))
        assert torch.equal(found.cpu(), function(zeros, places, values))
    with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
        torch.zeros(4).to(device).put_(places.to(device), values.to(device))


# ---- Hooks, and what is saved for the backward pass


def test_hooks_run_in_the_order_of_cpu(x, device):
    def run(place):
        log = []
        network = small_network().to(place)
        first = network[0]
        first.register_forward_pre_hook(lambda *_: log.append("before"))
        first.register_forward_hook(lambda *_: log.append("after"))
        first.register_full_backward_pre_hook(lambda *_: log.append("before backward"))
        first.register_full_backward_hook(lambda *_: log.append("after backward"))
        first.weight.register_hook(lambda *_: log.append("gradient"))
        first.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.device.type))
        torch.autograd.graph.register_multi_grad_hook(
            [first.weight, network[2].weight], lambda *_: log.append("all gradients")
        )
        y = network(x.to(place))
        y.register_hook(lambda *_: log.append("result"))
        y.grad_fn.register_hook(lambda *_: log.append("node"))
        y.sum().backward()
        return log

    assert run(device) == [device.type if entry == "cpu" else entry for entry in run("cpu")]


def test_saved_tensors_may_be_written_to(x, device):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        a = x.to(device).requires_grad_()
        b = a.clone()
        loss = (b * b).sum()
        b.sin_()
        loss.backward()
    assert torch.equal(a.grad.cpu(), 2 * x)


# ---- Autograd's modes


def test_inference_mode(x, device):
    ours = x.to(device)
    with torch.inference_mode():
        y = ours * 2
    assert y.is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        (ours.clone().requires_grad_() * y).sum().backward()
    with torch.no_grad():
        assert not (ours.clone().requires_grad_() * 2).requires_grad


def test_views_count_versions_with_their_base(x, device):
    base = x.to(device).requires_grad_() * 1
    view = base.view(-1)
    base.add_(1)
    assert view._version == base._version == 1
    assert view._base is base
