"""Functions and modules that are captured with their derivatives, against the same on CPU."""

import copy
from types import ModuleType

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.skipif(
    not hasattr(torch.accelerator, "Graph"), reason="this PyTorch has no graphs for accelerators"
)


@pytest.fixture
def module_of_device(device: torch.device) -> ModuleType:
    """Of a driver that captures graphs; others say that they do not."""
    module = torch.get_device_module(device)
    x = torch.ones(3, device=device)
    try:
        with module.graph(module.Graph()):
            x.add_(1)
    except NotImplementedError as error:
        with pytest.raises(NotImplementedError, match="graph"):
            module.make_graphed_callables(torch.exp, (x,))
        pytest.skip(f"no graphs here: {error}")
    return module


def sample(device: torch.device, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=device, requires_grad=True)


def test_function(device, module_of_device):
    def function(x, y):
        z = (x * y).exp()
        return {"sum": z + x, "kept": (z.detach(), y * 2)}

    arguments = (sample(device, 5, 3), sample(device, 3))
    graphed = module_of_device.make_graphed_callables(function, arguments)
    for _ in range(3):
        x, y = (torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True))
        mine = [t.detach().to(device).requires_grad_() for t in (x, y)]
        expected, found = function(x, y), graphed(*mine)
        torch.testing.assert_close(found, expected, check_device=False)
        assert not found["kept"][0].requires_grad
        for results in (expected, found):
            (results["sum"].sum() + 3 * results["kept"][1].sum()).backward()
        for ours, theirs in zip(mine, (x, y), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, check_device=False)

    # Backward passes go in any order.
    arguments = ((sample(device, 64),), (sample(device, 64),))
    graphed = module_of_device.make_graphed_callables((torch.exp, torch.sin), arguments)
    x, y = sample(device, 64), sample(device, 64)
    first, second = graphed[0](x), graphed[1](y)
    first.sum().backward()
    second.sum().backward()
    torch.testing.assert_close((x.grad, y.grad), (x.exp(), y.cos()))


def test_training(device, module_of_device):
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    body = copy.deepcopy(reference).to(device)
    head_reference = nn.Linear(3, 1)
    head = copy.deepcopy(head_reference).to(device)
    samples = ((torch.randn(4, 6, device=device),), (sample(device, 4, 3),))
    graphed = module_of_device.make_graphed_callables((body, head), samples)
    assert graphed == (body, head)
    for _ in range(3):
        x, y = torch.randn(4, 6), torch.randn(4, 1)
        for parts, to in (((reference, head_reference), "cpu"), (graphed, device)):
            for factor in (1, 2):  # gradients add up
                loss = nn.functional.mse_loss(parts[1](parts[0](factor * x.to(to))), y.to(to))
                loss.backward()
            with torch.no_grad():
                for part in parts:
                    for parameter in part.parameters():
                        parameter -= 0.1 * parameter.grad
                        parameter.grad = None
    for ours, theirs in zip(body.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, check_device=False)


def test_results_that_a_later_call_overwrote_are_not_used(device, module_of_device):
    """Neither those inside the graph nor those that were given out."""
    graphed = module_of_device.make_graphed_callables(torch.exp, (sample(device, 3),))
    first, second = graphed(sample(device, 3)), graphed(sample(device, 3))
    with pytest.raises(RuntimeError, match="a later call of the graphed callable overwrote"):
        first.sum().backward()
    second.sum().backward()
    product = graphed(sample(device, 3)) * sample(device, 3)
    with torch.no_grad():
        graphed(sample(device, 3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_the_other_mode_runs_as_it_was(device, module_of_device):
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).to(device).eval()
    graphed = module_of_device.make_graphed_callables(module, (torch.randn(2, 3, device=device),))
    x = torch.randn(7, 3, device=device)
    with pytest.raises(ValueError, match="capture one for each shape"):
        graphed(x)
    assert graphed.train()(x).shape == (7, 3)


def test_what_cannot_be_captured(device, module_of_device):
    make = module_of_device.make_graphed_callables
    x = torch.randn(3, device=device)
    with pytest.raises(TypeError, match="the callable returns a float"):
        make(lambda x: 1.0, (x,))
    with pytest.raises(TypeError, match="arguments of graphed callables are tensors"):
        make(lambda x, n: x, (x, 2))
    on_cpu = ((torch.exp, torch.zeros(3)), (nn.Linear(3, 3), x), (lambda x: torch.zeros(3), x))
    for function, argument in on_cpu:
        with pytest.raises(ValueError, match="a tensor on 'cpu' is not on the current device"):
            make(function, (argument,))
    with pytest.raises(ValueError, match="1 callables, and arguments for 2"):
        make((lambda x: x,), ((x,), (x,)))
    hooked = nn.Linear(3, 3).to(device)
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="hooks are not captured"):
        make(hooked, (x,))
    with torch.autocast(device.type), pytest.raises(RuntimeError, match="cache_enabled=False"):
        make(torch.exp, (x,))
    with pytest.raises(RuntimeError):
        make(lambda x: x + x.sum().item(), (x,))
    assert not module_of_device.is_current_stream_capturing()
    assert (x + 1).isfinite().all()
    graphed = make(torch.exp, (x,))
    with pytest.raises(ValueError, match="without the gradient of an argument"):
        graphed(sample(device, 3))
    with pytest.raises(ValueError, match="of the structure"):
        graphed(x, x)


def test_random_numbers_are_not_captured(device, module_of_device):
    """They would be the same at every replay."""
    offset = module_of_device.default_generators[device.index].get_offset()
    x = torch.ones(100, device=device)
    with (
        pytest.raises(NotImplementedError, match="every replay would draw the same"),
        module_of_device.graph(module_of_device.Graph()),
    ):
        torch.nn.functional.dropout(x)
    assert not module_of_device.is_current_stream_capturing()
    assert module_of_device.default_generators[device.index].get_offset() == offset
    assert torch.nn.functional.dropout(x).isfinite().all()
