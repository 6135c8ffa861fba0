"""The operators of SyncBatchNorm, against batch normalization of the whole batch."""

import pytest
import torch

EPS = 1e-5


def parts(shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """Two ranks with batches of different sizes."""
    generator = torch.Generator().manual_seed(0)
    sizes = shape, (shape[0] + 2, *shape[1:])
    return [torch.randn(size, generator=generator).to(dtype) * 2 + 1 for size in sizes]


@pytest.mark.separate
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((7, 3), torch.float64), ((4, 3, 5), torch.float32), ((3, 3, 4, 2), torch.bfloat16)],
)
def test_forward_and_backward(
    device: torch.device, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    inputs = parts(shape, dtype)
    grads = [torch.randn_like(x) for x in inputs]
    norm = torch.nn.BatchNorm1d(3, eps=EPS, momentum=0.3).to(wide)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([0.5, 1.0, 2.0]))
        norm.bias.copy_(torch.tensor([0.0, 1.0, -1.0]))
    whole = torch.cat(inputs).to(wide).flatten(2) if len(shape) > 2 else torch.cat(inputs).to(wide)
    whole.requires_grad_()
    running = norm.running_mean.to(device), norm.running_var.to(device)
    weight, bias = norm.weight.detach().to(device), norm.bias.detach().to(device)
    output = norm(whole)
    output.backward(torch.cat(grads).to(wide).reshape(output.shape))

    ours = [x.to(device) for x in inputs]
    statistics = [torch.batch_norm_stats(x, EPS) for x in ours]
    counts = torch.tensor([x.numel() // 3 for x in ours], device=device)
    mean, inverse = torch.batch_norm_gather_stats_with_counts(
        ours[0], torch.stack([m for m, _ in statistics]), torch.stack([i for _, i in statistics]),
        *running, 0.3, EPS, counts,
    )  # fmt: skip
    close = (
        {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    )
    torch.testing.assert_close(running[0].cpu(), norm.running_mean, **close)
    torch.testing.assert_close(running[1].cpu(), norm.running_var, **close)
    results = [torch.batch_norm_elemt(x, weight, bias, mean, inverse, EPS) for x in ours]
    assert all(r.dtype == dtype and r.shape == x.shape for r, x in zip(results, ours, strict=True))
    found = torch.cat([r.cpu() for r in results]).to(wide)
    torch.testing.assert_close(found, output.detach().reshape(found.shape), **close)

    reduced = [
        torch.batch_norm_backward_reduce(g.to(device), x, mean, inverse, weight, True, True, True)
        for g, x in zip(grads, ours, strict=True)
    ]
    of_weight, of_bias = (sum(part[i].cpu() for part in reduced) for i in (2, 3))
    torch.testing.assert_close(of_weight, norm.weight.grad, rtol=2e-2, atol=close["atol"])
    torch.testing.assert_close(of_bias, norm.bias.grad, rtol=2e-2, atol=close["atol"])
    sums = [sum(part[i] for part in reduced) for i in (0, 1)]
    found = torch.cat([
        torch.batch_norm_backward_elemt(
            g.to(device), x, mean, inverse, weight, *sums, counts.to(torch.int32)
        ).cpu()
        for g, x in zip(grads, ours, strict=True)
    ]).to(wide)  # fmt: skip
    torch.testing.assert_close(found, whole.grad.reshape(found.shape), **close)


def test_what_is_not_asked_for(device: torch.device) -> None:
    x = torch.randn(4, 3, device=device)
    mean, inverse = torch.batch_norm_stats(x, EPS)
    assert torch.batch_norm_elemt(x, None, None, mean, inverse, EPS).mean().abs() < 1e-5
    given = torch.batch_norm_backward_reduce(x, x, mean, inverse, None, False, False, True)
    assert [part is None for part in given] == [True, True, True, False]
    both = torch.batch_norm_gather_stats(
        x, torch.stack([mean, mean]), torch.stack([inverse, inverse]), None, None, 0.1, EPS, 4
    )
    torch.testing.assert_close(both[0], mean)
    with pytest.raises(RuntimeError, match="shape \\(batch, channels"):
        torch.batch_norm_stats(x[0], EPS)
