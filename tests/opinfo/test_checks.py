"""The sweep itself: that each check notices what it is there for."""

from __future__ import annotations

import pytest
import torch

from tests.opinfo.comparison import aliasing, as_exact_as, tensor_difference, tree_difference
from tests.opinfo.transplant import Transplant

CPU = torch.device("cpu")


def test_transplant_keeps_strides_and_shared_memory() -> None:
    base = torch.arange(12.0)
    view = base.as_strided((2, 3), (1, 4), 1)
    moved_view, moved_base = Transplant(CPU)((view, base))
    assert moved_view.stride() == (1, 4)
    assert moved_view.storage_offset() == 1
    assert moved_view.untyped_storage().data_ptr() == moved_base.untyped_storage().data_ptr()
    assert moved_base.data_ptr() != base.data_ptr()
    torch.testing.assert_close(moved_view, view)


def test_transplant_keeps_conj_and_neg_bits() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 1j])
    for bits in (tensor.conj(), tensor.conj().imag, torch._neg_view(tensor.real)):
        moved = Transplant(CPU)(bits)
        assert (moved.is_conj(), moved.is_neg()) == (bits.is_conj(), bits.is_neg())
        torch.testing.assert_close(moved, bits)


@pytest.mark.parametrize(
    ("actual", "reason"),
    [
        (torch.zeros(2, 3), "values"),
        (torch.ones(3, 2), "shape"),
        (torch.ones(2, 3, dtype=torch.float64), "dtype"),
        (torch.ones(3, 2).T, "strides"),
        (torch._neg_view(-torch.ones(2, 3)), "conj or neg bit"),
        (torch.ones(2, 3, device="meta"), "device"),
    ],
)
def test_differences_are_found(actual: torch.Tensor, reason: str) -> None:
    expected = torch.ones(2, 3)
    assert tensor_difference(expected, expected.clone(), CPU) is None
    difference = tensor_difference(expected, actual, CPU)
    assert difference is not None
    assert difference.startswith(reason)


def test_structures_and_scalars_are_compared() -> None:
    one = torch.ones(1)
    assert tree_difference((one, 1.0), (one, 1.0 + 1e-9), CPU) is None
    assert tree_difference((one, 1), (one, 2), CPU) == "result 1: is 2 and not 1"
    assert tree_difference([one], (one,), CPU) is not None
    assert tree_difference(one, 1.0, CPU) == "is a float and not a Tensor"


def test_aliasing_tells_views_from_copies() -> None:
    x = torch.ones(4)
    assert aliasing(x[1:], [x]) != aliasing(x[1:].clone(), [x])
    assert aliasing(x, [x]) != aliasing(x.view(4), [x])
    assert aliasing((x[1:],), [x]) == aliasing((torch.narrow(x, 0, 1, 3),), [x])


def test_random_values_are_held_to_their_range() -> None:
    expected = torch.rand(100)
    assert tensor_difference(expected, torch.rand(100), CPU, values="random") is None
    for wrong in (torch.rand(100) - 2, torch.full((100,), float("nan")), torch.ones(100) * 3):
        assert tensor_difference(expected, wrong, CPU, values="random") is not None


def test_sums_of_random_choices_only_have_to_be_finite() -> None:
    expected = torch.rand(100)
    assert tensor_difference(expected, torch.ones(100) * 3, CPU, values="random sums") is None
    wrong = torch.full((100,), float("inf"))
    assert tensor_difference(expected, wrong, CPU, values="random sums") is not None


def test_roundings_are_judged_by_float64() -> None:
    exact = torch.tensor([1.0, 1e-3, float("inf")], dtype=torch.float64)
    expected = exact.float() + torch.tensor([0, 1.2e-5, 0])
    near = exact.float() + torch.tensor([0, -2e-5, 0])
    assert tree_difference(expected, near, CPU) is not None
    assert tree_difference(expected, near, CPU, lambda: exact) is None
    for wrong in (near + 1e-4, near.clone().fill_(1), torch.full((3,), float("nan"))):
        assert not as_exact_as(expected, wrong, exact)
        assert tree_difference(expected, wrong, CPU, lambda: exact) is not None


def test_transplant_changes_dtypes() -> None:
    tensor, dtype = Transplant(CPU, dtypes={torch.float32: torch.float64})(
        (torch.ones(2), torch.float32)
    )
    assert (tensor.dtype, dtype) == (torch.float64, torch.float64)
