"""Sparse tensors as results: also those that are arguments already."""

from collections.abc import Callable, Iterator

import pytest
import torch

pytestmark = pytest.mark.separate


def coo() -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.tensor([[1.0, 0, 2], [0, 3, 0]])
    b = torch.tensor([[0.0, 5, 7], [0, 0, 1]])
    return a, b


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "coo": lambda x: x.to_sparse_coo(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
}

CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add out=a": lambda a, b: torch.add(a, b, out=a),
    "add out=b": lambda a, b: torch.add(a, b, out=b),
    "mul out=a": lambda a, b: torch.mul(a, b, out=a),
    "add a, a, out=a": lambda a, b: torch.add(a, a, out=a),
    "sin out=a": lambda a, b: torch.sin(a, out=a),
    "abs out=b": lambda a, b: torch.abs(a, out=b),
    "add_": lambda a, b: a.add_(b),
    "mul_ of itself": lambda a, b: a.mul_(a),
    "zero_": lambda a, b: a.zero_(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", CALLS)
def test_result_that_is_an_argument(device: torch.device, layout: str, call: str) -> None:
    on_cpu = [LAYOUTS[layout](x) for x in coo()]
    on_device = [LAYOUTS[layout](x.to(device)) for x in coo()]
    try:
        expected = CALLS[call](*on_cpu)
    except Exception as error:
        with pytest.raises(type(error)):
            CALLS[call](*on_device)
        return
    actual = CALLS[call](*on_device)
    for got, want in ((actual, expected), *zip(on_device, on_cpu, strict=True)):
        torch.testing.assert_close(got.cpu().to_dense(), want.to_dense())
        if layout == "coo":
            assert got.is_coalesced() == want.is_coalesced()
            assert got._nnz() == want._nnz()
    for got, want in zip(on_device, on_cpu, strict=True):
        assert (actual is got) == (expected is want)


@pytest.mark.parametrize("indices", [[[0, 0, 2], [1, 3, 0]], [[0, 2, 1], [1, 0, 1]], [[1], [2]]])
def test_indices_are_checked_where_they_are_said_to_be_coalesced(
    device: torch.device, indices: list[list[int]]
) -> None:
    def made(on: torch.device | str) -> torch.Tensor:
        places = torch.tensor(indices, device=on)
        values = torch.ones(places.shape[1], device=on)
        return torch.sparse_coo_tensor(
            places, values, (3, 4), check_invariants=True, is_coalesced=True
        )

    try:
        expected = made("cpu")
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error).splitlines()[0]):
            made(device)
        return
    assert made(device).is_coalesced()
    torch.testing.assert_close(made(device).cpu().to_dense(), expected.to_dense())


@pytest.mark.parametrize("name", ["amax", "sum", "prod", "mean"])
def test_masked_reductions_of_rows(device: torch.device, name: str) -> None:
    function = getattr(torch.masked, name)

    def reduced(x: torch.Tensor, dim: int | tuple[int, int]) -> torch.Tensor:
        mask = (x != 0).to_sparse_csr()
        return function(x.to_sparse_csr(), dim, keepdim=True, mask=mask).cpu().to_dense()

    for dim in (0, 1, (0, 1)):
        torch.testing.assert_close(reduced(coo()[0].to(device), dim), reduced(coo()[0], dim))
    with pytest.raises(RuntimeError, match="keepdim=False is unsupported"):
        torch.masked.sum(coo()[0].to(device).to_sparse_csr(), 0)


def test_random_values_of_rows(device: torch.device) -> None:
    model = coo()[0].to(device).to_sparse_csr()
    torch.manual_seed(1)
    drawn = torch.randn_like(model)
    assert drawn.layout == model.layout
    torch.manual_seed(1)
    assert torch.equal(drawn.values(), torch.empty_like(model.values()).normal_())


@pytest.fixture
def checked_invariants() -> Iterator[None]:
    before = torch.sparse.check_sparse_tensor_invariants.is_enabled()
    torch.sparse.check_sparse_tensor_invariants.enable()
    yield
    if not before:
        torch.sparse.check_sparse_tensor_invariants.disable()


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_bsc], ids=str)
@pytest.mark.usefixtures("checked_invariants")
def test_indices_to_be_filled_in(device: torch.device, layout: torch.layout) -> None:
    """Only who made the tensor knows when its indices are ready to be checked."""
    for count in range(1, 9):  # freed memory that is not zero
        torch.full((count,), 77, dtype=torch.int64, device=device)
    blocks = () if layout is torch.sparse_csr else (2, 3)
    made = torch.ops.aten._sparse_compressed_tensor_with_dims(
        3, 0, (4, 6), blocks, torch.int64, dtype=torch.float32, layout=layout,
        device=device,
    )  # fmt: skip
    assert made._nnz() == 3
    plain = made.crow_indices() if layout is torch.sparse_csr else made.ccol_indices()
    plain.fill_(77)
    assert made.layout == layout
    assert made.values().shape[0] == 3
    assert made.detach()._nnz() == 3


@pytest.mark.usefixtures("checked_invariants")
def test_unchecked_factories(device: torch.device) -> None:
    """Tensors made without checks stay unchecked in later calls; others are checked."""
    wrong = torch.tensor([[7, 8], [9, 1]])
    values = torch.ones(2)
    for location in ("cpu", device):
        i, v = wrong.to(location), values.to(location)
        made = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
            2, 0, (2, 2), i, v, dtype=v.dtype, layout=torch.sparse_coo, device=v.device
        )
        assert made._nnz() == 2
        assert made._indices().cpu().equal(wrong)
        made._values().mul_(2)
        with pytest.raises(RuntimeError):
            torch.sparse_coo_tensor(i, v, (2, 2))
        rows, columns = torch.tensor([0, 5, 2]).to(location), torch.tensor([0, 7]).to(location)
        with pytest.raises(RuntimeError):
            torch.sparse_csr_tensor(rows, columns, v, (2, 2))
        unchecked = torch.sparse_csr_tensor(rows, columns, v, (2, 2), check_invariants=False)
        assert unchecked._nnz() == 2
        assert unchecked.crow_indices().tolist() == [0, 5, 2]
