"""The router: devices that do not mix, and results that cannot exist."""

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


@pytest.mark.parametrize("other", ["cpu", "second"])
def test_devices_do_not_mix(device, other):
    x = torch.eye(3).to(device)
    y = torch.eye(3).to("cpu" if other == "cpu" else torch.device(device.type, 1))
    for name, use in BINARY.items():
        for first, second in ((x, y), (y, x)):
            # The device's is named before CPU.
            locations = (x, y) if other == "cpu" else (first, second)
            found = f"found at least two devices, {locations[0].device} and {locations[1].device}!"
            with pytest.raises(RuntimeError) as caught:
                use(first, second)
            assert str(caught.value).startswith(f"{SAME_DEVICE}, but {found}"), name
    for tensor in (x, y):
        assert torch.equal(tensor.cpu(), torch.eye(3))


def test_scalars_of_the_cpu_mix(device):
    x, scalar = torch.tensor([1.0, 2.0]).to(device), torch.tensor(3.0)
    for result in (x * scalar, scalar * x, x.clone().mul_(scalar), torch.mul(x, scalar)):
        assert result.device == device
        assert result.tolist() == [3, 6]
    assert torch.where(x > 1, x, scalar).tolist() == [3, 2]
    with pytest.raises(RuntimeError):
        torch.tensor(1.0).add_(x)
    with pytest.raises(RuntimeError, match=SAME_DEVICE):
        x + torch.tensor(1.0, device=torch.device(device.type, 1))


def test_results_of_a_layout_that_the_device_lacks(device):
    x = torch.eye(3).to(device)
    with pytest.raises((NotImplementedError, RuntimeError)) as caught:
        print(x.to_mkldnn().device)
    message = str(caught.value)
    assert "INTERNAL ASSERT" not in message
    assert torch.equal(x.cpu(), torch.eye(3))


def test_errors_that_depend_on_values(device):
    for use in (
        lambda x: torch.linalg.cholesky(x.new_ones(2, 2) - 2),
        lambda x: torch.linalg.inv(x.new_zeros(2, 2)),
        lambda x: x.long() // x.long().zero_(),
    ):
        with pytest.raises(RuntimeError) as expected:
            use(torch.ones(3))
        with pytest.raises(type(expected.value)):
            use(torch.ones(3, device=device))
    assert torch.ones(3, device=device).sum().item() == 3
