"""Products of a matrix compressed by rows that reduce by more than sums."""

import pytest
import torch

pytestmark = [
    pytest.mark.separate,
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:.* runs as a host kernel"),
]


def expected(a: torch.Tensor, b: torch.Tensor, reduce: str) -> torch.Tensor:
    """The product by dense operators: where a row of `a` has no entry, it is 0."""
    entries = a != 0
    products = a[:, :, None] * b[None]
    count = entries.sum(1)[:, None]
    if reduce in ("sum", "mean"):
        return products.sum(1) / (count.clamp_min(1) if reduce == "mean" else 1)
    worst = float("-inf" if reduce == "amax" else "inf")
    found = getattr(products.masked_fill(~entries[:, :, None], worst), reduce)(1)
    return torch.where(count > 0, found, torch.zeros(()))


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("empty_rows", [False, True])
@pytest.mark.parametrize("indices", [torch.int64, torch.int32])
def test_derivatives(device, reduce, empty_rows, indices):
    generator = torch.Generator().manual_seed(8)
    for rows, columns, width in ((1, 1, 1), (20, 9, 33)):
        a = torch.rand(rows, columns, generator=generator) + 0.1
        a *= torch.rand(rows, columns, generator=generator) < 0.4
        a[:, 0] = 0.5
        if empty_rows:
            a[rows // 2 :: 3] = 0
        b = torch.rand(columns, width, generator=generator) - 0.5
        grad = torch.rand(rows, width, generator=generator)
        dense, other = a.clone().requires_grad_(), b.clone().requires_grad_()
        of_dense, of_other = torch.autograd.grad(
            expected(dense, other, reduce), (dense, other), grad
        )
        csr = a.to_sparse_csr()
        sparse = torch.sparse_csr_tensor(
            csr.crow_indices().to(indices), csr.col_indices().to(indices), csr.values(), a.shape
        )
        sparse = sparse.to(device).requires_grad_()
        on_device = b.to(device).requires_grad_()
        out = torch.sparse.mm(sparse, on_device, reduce)
        torch.testing.assert_close(out.cpu(), expected(a, b, reduce))
        out.backward(grad.to(device))
        assert sparse.grad.layout == torch.sparse_csr
        assert sparse.grad.device == on_device.grad.device == device
        torch.testing.assert_close(sparse.grad.cpu().to_dense(), of_dense * (a != 0))
        torch.testing.assert_close(on_device.grad.cpu(), of_other)
