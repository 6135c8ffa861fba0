"""The router: devices that do not mix, results that cannot exist, and kernels of all sources."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.separate, pytest.mark.usefixtures("allowed")]

SAME_DEVICE = "Expected all tensors to be on the same device"


BINARY = {
    "add": lambda x, y: x + y,
    "in-place": lambda x, y: x.add_(y),
    "compare": lambda x, y: x == y,
    "mm": lambda x, y: torch.mm(x, y),
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "linear": lambda x, y: torch.nn.functional.linear(x, y),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "mse_loss": lambda x, y: torch.nn.functional.mse_loss(x, y),
    "gather": lambda x, y: torch.gather(x, 0, y.long()),
    "embedding": lambda x, y: torch.nn.functional.embedding(y.long(), x),
    "out": lambda x, y: torch.exp(x, out=y),
    "lerp": lambda x, y: torch.lerp(x, x, y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "layer_norm": lambda x, y: torch.nn.functional.layer_norm(x, (3,), y[0]),
}


def two_devices(x: torch.Tensor, y: torch.Tensor) -> str:
    """A pattern of the error that names the devices of both."""
    return f"^{SAME_DEVICE}, but found at least two devices, {x.device} and {y.device}!"


@pytest.mark.parametrize("name", BINARY)
def test_devices_do_not_mix(device, name):
    x = torch.eye(3).to(device)
    y = torch.eye(3).to(torch.device(device.type, 1))
    with pytest.raises(RuntimeError, match=two_devices(x, y)):
        BINARY[name](x, y)
    with pytest.raises(RuntimeError, match=two_devices(y, x)):
        BINARY[name](y, x)
    for tensor in (x, y):
        assert torch.equal(tensor.cpu(), torch.eye(3))


@pytest.mark.parametrize("name", BINARY)
def test_cpu_tensors_do_not_mix(device, name):
    x, y = torch.eye(3).to(device), torch.eye(3)
    with pytest.raises(RuntimeError, match=two_devices(x, y)):
        BINARY[name](x, y)
    with pytest.raises(RuntimeError, match=two_devices(x, y)):
        BINARY[name](y, x)
    assert torch.equal(x.cpu(), y)


def test_scalars_of_the_cpu_mix(device):
    x, scalar = torch.tensor([1.0, 2.0]).to(device), torch.tensor(3.0)
    for result in (x * scalar, scalar * x, x.clone().mul_(scalar), torch.mul(x, scalar)):
        assert result.device == device
        assert result.tolist() == [3, 6]
    assert torch.where(x > 1, x, scalar).tolist() == [3, 2]
    with pytest.raises(RuntimeError):
        torch.tensor(1.0).add_(x)


def test_scalars_of_another_device_do_not_mix(device):
    with pytest.raises(RuntimeError, match=SAME_DEVICE):
        torch.ones(3, device=device) + torch.tensor(1.0, device=torch.device(device.type, 1))


def test_results_of_a_layout_that_the_device_lacks(device):
    x = torch.eye(3).to(device)
    with pytest.raises((NotImplementedError, RuntimeError)) as caught:
        print(x.to_mkldnn().device)
    message = str(caught.value)
    assert "INTERNAL ASSERT" not in message
    assert torch.equal(x.cpu(), torch.eye(3))


def test_wrong_arguments_raise_as_on_the_cpu(device):
    x = torch.ones(2, 3)
    for use in (
        lambda x: torch.mm(x, x),
        lambda x: x.view(4),
        lambda x: x.sum(dim=5),
        lambda x: x[7],
        lambda x: torch.cat([x, x.new_ones(3, 3)], dim=1),
        lambda x: x.add_(x.new_ones(5, 2, 3)),
        lambda x: torch.linalg.cholesky(x),
        lambda x: x.to(torch.int64) // x.new_zeros(3).to(torch.int64),
        lambda x: torch.linalg.inv(x.new_zeros(2, 2)),
    ):
        with pytest.raises(Exception) as expected:  # noqa: PT011
            use(x)
        with pytest.raises(type(expected.value)):
            use(x.to(device))
    assert (x.to(device) + 1).sum().item() == 12
