"""Group normalization's gradient lies in memory as on CPU."""

import pytest
import torch
from torch.nn.functional import group_norm
from torch.testing import assert_close

FORMATS = {
    "channels_last": (torch.channels_last, (4, 6, 2, 3)),
    "channels_last_3d": (torch.channels_last_3d, (2, 6, 2, 3, 2)),
    "contiguous": (torch.contiguous_format, (4, 6, 2, 3)),
    "rows": (torch.contiguous_format, (4, 6, 5)),
}


def operands(name: str, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    memory_format, sizes = FORMATS[name]
    x = torch.randn(sizes).to(memory_format=memory_format)
    return x.to(device).requires_grad_(), torch.randn(sizes[1]).to(device).requires_grad_()


def assert_alike(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.stride() == want.stride()
    assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("again", [False, True], ids=["once", "with a graph"])
@pytest.mark.parametrize("name", FORMATS)
def test_layout_of_gradients(device: torch.device, name: str, again: bool) -> None:
    made = []
    for location in ("cpu", device):
        x, weight = operands(name, location)
        y = group_norm(x, 3, weight)
        cotangent = torch.ones_like(y) * torch.arange(y.shape[-1], device=location)
        made.append([y, *torch.autograd.grad(y, [x, weight], cotangent, create_graph=again)])
    for want, got in zip(*made, strict=True):
        assert_alike(got, want)


def test_layout_of_the_operators_result(device: torch.device) -> None:
    """Without autograd: what compiled graphs call."""
    made = []
    for location in ("cpu", device):
        x, weight = (t.detach() for t in operands("channels_last", location))
        _, mean, rstd = torch.native_group_norm(x, weight, None, 4, 6, 6, 3, 1e-5)
        grad = torch.ones_like(x) * torch.arange(3, device=location)
        backward = torch.ops.aten.native_group_norm_backward
        made.append(backward(grad, x, mean, rstd, weight, 4, 6, 6, 3, [True, True, True]))
    for want, got in zip(*made, strict=True):
        assert_alike(got, want)


def test_transforms(device: torch.device) -> None:
    """Those of torch.func, and derivatives of a derivative; layouts stay what they were."""

    def total(x: torch.Tensor) -> torch.Tensor:
        return group_norm(x, 3).exp().sum()

    x, _ = operands("channels_last", "cpu")
    x = x.detach()
    for function in (
        torch.func.grad(total),
        torch.func.grad(lambda x: torch.func.grad(total)(x).square().sum()),
        lambda x: torch.func.vmap(torch.func.grad(total))(torch.stack([x, x])),
    ):
        assert_close(function(x.to(device)).cpu(), function(x), rtol=1e-3, atol=1e-3)
    # The composition has no such derivative for channels_last on CPU either.
    dense = x.contiguous()
    tangents = [
        torch.func.jvp(lambda x: group_norm(x, 3), (x,), (x.square(),))[1]
        for x in (dense, dense.to(device))
    ]
    assert_close(tangents[1].cpu(), tangents[0], rtol=1e-4, atol=1e-4)
    test_layout_of_gradients(device, "channels_last", again=False)


@pytest.mark.by_turns(2)
def test_traced(device: torch.device) -> None:
    """By torch.compile's front end, whose dispatcher in Python comes before autograd."""
    made = []
    for location in ("cpu", device):
        x, weight = operands("channels_last", location)
        y = torch.compile(lambda x, w: group_norm(x, 3, w), backend="aot_eager")(x, weight)
        made.append([y, *torch.autograd.grad(y.square().sum(), [x, weight])])
    for want, got in zip(*made, strict=True):
        assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4)
