"""Steps of torch's optimizers, compiled, against eager CPU."""

from typing import Any

import pytest
import torch
from torch import nn

SETTINGS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "lr": 0.1},
    "RMSprop": {"momentum": 0.9},
}
OPTIMIZERS = sorted(
    name
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and name != "Optimizer"
)


def parameters_after_steps(name: str, device: object, compiled: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(size).to(device)) for size in ((4, 5), (3, 2))]
    optimizer = getattr(torch.optim, name)(parameters, **SETTINGS.get(name, {}))

    def closure() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = parameter.detach() * 2
        return sum((p.detach() ** 2).sum() for p in parameters)

    def step() -> None:
        optimizer.step(closure if name == "LBFGS" else None)

    if compiled:
        step = torch.compile(step)
    for number in range(3):
        for parameter in parameters:
            parameter.grad = parameter.detach().sin() + number
            if name == "SparseAdam":
                parameter.grad = parameter.grad.to_sparse()
        step()
    return [parameter.detach().cpu() for parameter in parameters]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name: str, device: torch.device):
    expected = parameters_after_steps(name, "cpu", compiled=False)
    actual = parameters_after_steps(name, device, compiled=True)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
