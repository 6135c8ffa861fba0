"""Alerts where deterministic algorithms are asked for and a kernel is none."""

from collections.abc import Callable, Iterator

import pytest
import torch

from torch_outboard import fallback, placement
from torch_outboard.scoreboard.comparison.calls import attempt

ALERTS: dict[str, Callable[[torch.device], torch.Tensor]] = {
    "max_unpooling2d_forward_out": lambda device: torch.nn.functional.max_unpool2d(
        torch.ones(1, 1, 2, 2, device=device),
        torch.arange(4, device=device).reshape(1, 1, 2, 2),
        2,
    ),
    "max_unpooling3d_forward_out": lambda device: torch.nn.functional.max_unpool3d(
        torch.ones(1, 1, 2, 2, 2, device=device),
        torch.arange(8, device=device).reshape(1, 1, 2, 2, 2),
        2,
    ),
    "put_": lambda device: torch.zeros(4, device=device).put_(
        torch.tensor([1, 2], device=device), torch.ones(2, device=device)
    ),
}


@pytest.fixture(params=["device", "host"])
def setting(request: pytest.FixtureRequest) -> Iterator[str]:
    with placement.use(request.param):
        yield request.param
    torch.use_deterministic_algorithms(False)


def test_alerts(device: torch.device, setting: str) -> None:
    for name, call in ALERTS.items():
        torch.use_deterministic_algorithms(False)
        without = call(device).cpu()
        torch.use_deterministic_algorithms(True)
        expected = attempt(lambda call=call: call(torch.device("cpu")))
        actual = attempt(lambda call=call: call(device))
        assert type(actual.error) is type(expected.error) is RuntimeError
        assert str(actual.error) == str(expected.error)
        assert str(actual.error).startswith(name)

        torch.use_deterministic_algorithms(True, warn_only=True)
        with fallback.report() as report, pytest.warns(UserWarning, match=name):
            result = call(device)
        torch.testing.assert_close(result.cpu(), without)
        if setting == "device":
            assert all(row.placement == "device" for row in report.rows)


def test_sums_at_indices_are_deterministic(device: torch.device, setting: str) -> None:
    torch.use_deterministic_algorithms(True)
    indices = torch.tensor([1, 1], device=device)
    result = torch.zeros(4, device=device).put_(indices, torch.ones(2, device=device), True)
    torch.testing.assert_close(result.cpu(), torch.tensor([0.0, 2, 0, 0]))
