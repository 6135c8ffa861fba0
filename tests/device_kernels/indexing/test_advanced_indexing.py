"""Advanced indexing by device kernels, against CPU: index tensors and masks in brackets."""

import pytest
import torch

from tests.device_kernels.on_device import assert_as_on_cpu, compare
from torch_outboard import fallback


def test_index_with_lists(device):
    def work(x, i, j):
        return (
            x[j, :, i],
            x[x[:, 0, 0] > -9, i[:1]],
            x.transpose(0, 2)[j, i],
            torch.ops.aten.index.Tensor_out(x, [i], out=x.new_empty(6, 5, 3).permute(2, 1, 0)),
        )

    i, j = torch.tensor([1, -2, 3]), torch.tensor([[0], [2]])
    assert_as_on_cpu(device, work, torch.randn(4, 5, 6), i, j)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(device, accumulate):
    x = torch.randn(4, 5, 6)
    i, j = torch.tensor([1, -2, 3]), torch.tensor([[0], [2]])

    def work(x, i, j):
        results = [x.clone() for _ in range(5)]
        value = torch.full((), 2.0, device=x.device)
        results[0].index_put_((i,), value, accumulate)
        results[1].index_put_((j, i), x[0, 0], accumulate)
        results[2].transpose(0, 1).index_put_((i, j), value, accumulate)
        results[3].index_put_((x > 0,), value, accumulate)
        results[4][:, ::2].index_put_((i,), value, accumulate)
        results[0][j, :, i] = 3.0
        neighbours = torch.zeros(12, 5, 6, device=x.device)
        neighbours[4:8].index_put_((i,), x[:3], accumulate)
        return [*results, neighbours]

    assert_as_on_cpu(device, work, x, i, j)


@pytest.mark.parametrize("accumulate", [False, True])
def test_wide_slices(device, accumulate):
    # Wider than what a work item takes at once, dense and strided.
    def work(x, values, index):
        dense, strided = x.clone(), x.repeat_interleave(2, 2)[:, :, ::2]
        for into in (dense, strided):
            into.index_put_((index,), values, accumulate)
            into.index_put_((index,), values[0, 0, 0], accumulate)
        return dense, strided

    index = torch.tensor([1, 7, 1, -2, 0])
    assert_as_on_cpu(device, work, torch.randn(9, 4, 601), torch.randn(5, 4, 601), index)


def test_a_single_mask_fills_without_waiting_for_positions(device):
    def work(x, mask, number):
        whole, leading, later = x.clone(), x.clone(), x.clone()
        whole[mask] = 0
        leading[mask[:, 0]] = number
        later[:, mask[0]] = 2.5
        elsewhere = x.clone()
        elsewhere[mask.cpu()] = 7  # PyTorch takes masks on the CPU as well
        return whole, leading, later, elsewhere

    x = torch.randn(6, 5)
    with fallback.report() as report:
        assert_as_on_cpu(device, work, x, x > 0, torch.tensor(3.0))
    assert "aten::nonzero" not in {row.op for row in report.rows}


@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_a_single_index_is_one_kernel(device, kind):
    x, values = torch.randn(4, 5, 6), torch.randn(4, 2, 2, 6)
    i = torch.tensor([[1, -2], [3, 0]], dtype=kind)
    put, writes = torch.ops.aten.index_put_, {"aten::_index_put_impl_"}
    alone = {"support": frozenset()}
    assert compare(device, lambda x, i: x[:, i], x, i, **alone) == {"aten::index.Tensor"}
    for accumulate in (False, True):
        write = lambda x, i, v, a=accumulate: put(x, [None, i], v, a)  # noqa: E731
        assert compare(device, write, x, i, values, **alone) == writes


def test_empty_and_scalar_indices(device):
    x = torch.randn(3, 4)

    def work(x):
        none = torch.empty(0, 2, dtype=torch.int64, device=x.device)
        scalar = torch.tensor(-2, device=x.device)
        written = x.clone()
        written[none] = 1.0
        written[:, scalar] = 5.0
        return x[none], x[:, none], x[scalar], x[:, scalar], x[:0][none], x[:, :0][scalar], written

    assert_as_on_cpu(device, work, x)


@pytest.mark.parametrize("deterministic", [False, True])
def test_more_indices_than_a_work_item_takes(device, deterministic):
    """Different indices, so that their order does not matter; then the same ones, in order."""
    x, values = torch.zeros(10_000), torch.arange(10_000.0)
    i = torch.randperm(10_000)
    torch.use_deterministic_algorithms(deterministic)
    try:
        assert_as_on_cpu(device, lambda x, i, v: x.index_put((i,), v), x, i, values)
        if deterministic:
            last = x.to(device).index_put((i.to(device) % 10,), values.to(device)).cpu()
            expected = dict(zip((i % 10).tolist(), values.tolist(), strict=True))
            assert last[:10].tolist() == [expected[index] for index in range(10)]
            assert not last[10:].any()
    finally:
        torch.use_deterministic_algorithms(False)


ALL = slice(None)
INDICES = torch.tensor([0, 2, 3])
MATRIX = torch.tensor([[0, 1], [2, 3]])
MASK = torch.tensor([True, False, True, True, False])
INDICES = [
    (INDICES,), (ALL, INDICES), (ALL, ALL, INDICES), (INDICES, ALL, INDICES), (ALL, MATRIX, MATRIX),
    (ALL, MATRIX.t()), (ALL, MASK),
]  # fmt: skip


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 1, 0)])
def test_results_have_the_order_in_memory_of_cpu(device, order):
    x = torch.randn(5, 5, 5).permute(order)
    for index in INDICES:
        compare(device, lambda x, index: x[index], x, index, check_stride=True)
