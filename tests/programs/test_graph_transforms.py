"""Modes and transforms between a program and the device's kernels, compared with CPU."""

import copy
import io

import pytest
import torch
from torch import func, nn
from torch.nn import functional

from tests.programs.comparison import as_on_cpu
from tests.programs.training import batch, perceptron


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(2))


def test_fake_tensors_keep_their_device(device, x):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    file = io.BytesIO()
    torch.save(x.to(device), file)
    file.seek(0)
    mode = FakeTensorMode()
    fake = mode.from_tensor(x.to(device))
    assert isinstance(fake, FakeTensor)
    with mode:
        assert (fake * 2).sum().device == device
        assert torch.load(file).device == device
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


@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_graphs_have_the_operators_of_cpu(device, x, mode):
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(x, weight):
        hidden = functional.layer_norm(functional.linear(x, weight), (4,))
        return functional.gelu(hidden).softmax(-1).sum()

    def derivative(x, weight):
        return func.grad(step, argnums=1)(x, weight)

    def kinds(graph_module):
        return [str(n.target) for n in graph_module.graph.nodes if n.op == "call_function"]

    weight = torch.randn(4, 4)
    ours = make_fx(derivative, tracing_mode=mode)(x.to(device), weight.to(device))
    assert kinds(ours) == kinds(make_fx(derivative, tracing_mode=mode)(x, weight))
    torch.testing.assert_close(
        ours(x.to(device), weight.to(device)).cpu(), derivative(x, weight), atol=1e-5, rtol=1e-4
    )


def test_random_numbers_below_vmap(device):
    x = torch.zeros(3, 50).to(device)

    def rows(randomness):
        return func.vmap(lambda v: v + torch.randn_like(v), randomness=randomness)(x).cpu()

    same, different = rows("same"), rows("different")
    assert torch.equal(same[0], same[1])
    assert not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="called random operation"):
        rows("error")


def test_flops_are_counted_as_on_cpu(device):
    from torch.utils.flop_counter import FlopCounterMode

    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    images, heads = torch.randn(2, 1, 4, 4), torch.randn(1, 2, 5, 4)

    def count(location):
        ours = copy.deepcopy(network).to(location)
        q = heads.to(location).requires_grad_()
        with FlopCounterMode(display=False) as counter:
            ours(images.to(location)).sum().backward()
            torch.bmm(q[0], q[0].mT)
            functional.scaled_dot_product_attention(q, q, q).sum().backward()
        return counter.get_total_flops()

    assert count(device) == count("cpu") > 0


@as_on_cpu(bitwise=False)  # products of batches that vmap makes have other strides
def test_gradients_per_sample(run):
    """Each sample's gradient, bounded and averaged, as private training does it."""
    model = run.on_device(perceptron(8))
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss_of(parameters, sample, target):
        scores = func.functional_call(model, parameters, (sample.unsqueeze(0),))
        return functional.cross_entropy(scores, target.unsqueeze(0))

    each = func.vmap(func.grad(loss_of), in_dims=(None, 0, 0))
    for _ in range(4):
        gradients = each(parameters, *batch(run))
        norms = torch.stack([g.flatten(1).square().sum(1) for g in gradients.values()]).sum(0)
        factor = (1.0 / norms.sqrt()).clamp(max=1.0)
        parameters = {
            name: p - 0.1 * torch.einsum("n,n...->...", factor, gradients[name]) / len(factor)
            for name, p in parameters.items()
        }
        yield {"norms": norms, "parameters": parameters}


@as_on_cpu(bitwise=False)  # products of batches that vmap makes have other strides
def test_derivatives_of_derivatives(run):
    """A penalty on gradients in the inputs; a slope and a Jacobian by forward mode."""
    critic = run.on_device(nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.LayerNorm(8)))
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
    for _ in range(4):
        x = run.draw(8, 2).requires_grad_()
        (slope,) = torch.autograd.grad(critic(x).square().sum(), x, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()
        parameters = {name: p.detach() for name, p in critic.named_parameters()}
        direction = {name: run.draw(*p.shape) for name, p in parameters.items()}

        def call(parameters, inputs):
            return func.functional_call(critic, parameters, (inputs,)).square().mean(0)

        inputs = x.detach()
        _, forward = func.jvp(lambda p: call(p, inputs), (parameters,), (direction,))  # noqa: B023
        jacobian = func.jacfwd(lambda x: call(parameters, x))(inputs)  # noqa: B023
        yield {"penalty": penalty, "critic": critic, "forward": forward, "jacobian": jacobian}
