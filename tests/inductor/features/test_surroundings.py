"""Streams, several devices, deterministic mode."""

import pytest
import torch

from tests.inductor.support import check
from tests.support import run_python


def test_streams(device: torch.device):
    stream = torch.Stream(device)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.sin() + 1
        with stream:
            z = x.exp() * 2
        return y, z

    x = torch.randn(500)
    there = x.to(device)
    torch.accelerator.synchronize()  # nothing in the function makes streams wait for each other
    results = torch.compile(function)(there)
    torch.accelerator.synchronize()
    for ours, right in zip(results, function(x), strict=True):
        torch.testing.assert_close(ours.cpu(), right)


@pytest.mark.slow
def test_events_and_waits(device: torch.device):
    def function(x: torch.Tensor) -> torch.Tensor:
        event = torch.Event(device)
        y = x * 3
        event.record()
        event.synchronize()
        torch.accelerator.synchronize()
        return y

    x = torch.randn(500)
    with torch.Stream(device):  # the graph runs on the stream of its caller
        torch.testing.assert_close(torch.compile(function)(x.to(device)).cpu(), x * 3)


@pytest.mark.slow
def test_deterministic_mode(device: torch.device):
    def function(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        where = i[:, None].expand(9, 4)
        return x.index_add(0, i, y), x.scatter_add(0, where, y), x.cumsum(0)

    torch.use_deterministic_algorithms(True)
    try:
        arguments = torch.randn(5, 4), torch.randint(0, 5, (9,)), torch.randn(9, 4)
        check(function, *arguments, device=device)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["device", "host"])
def test_several_devices_in_a_process(placement: str):
    """Kernels where the driver `host` has a clang; C++ code on shared memory."""
    printed = run_python(
        """
        import torch, torch_outboard
        devices = [torch.device("host", i) for i in range(3)]
        compiled = torch.compile(lambda x: torch.dropout(x.sin(), 0.5, True) + 1)
        def both(x, y):
            return (x * 2).sum(), (y * 3).to(x.device) + x
        for device in devices:
            x = torch.linspace(0, 1, 300, device=device)
            torch.manual_seed(4)
            want = torch.dropout(x.sin(), 0.5, True) + 1
            torch.manual_seed(4)
            got = compiled(x)
            assert got.device == device, got.device
            torch.testing.assert_close(got, want)
        x, y = (torch.arange(5.0, device=device) for device in devices[1:])
        for got, want in zip(torch.compile(both)(x, y), both(x, y)):
            assert got.device == devices[1]
            torch.testing.assert_close(got, want)
        print(torch.accelerator.current_device_index())
        """,
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_DEVICES="3",
        OUTBOARD_HOST_ACCESS=None,
        OUTBOARD_PLACEMENT=placement,
        timeout=280,
    )
    assert printed.split() == ["0"]
