"""The sweep itself: that each check notices what it is there for."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torch_outboard.scoreboard.comparison.calls import Nature, nature
from torch_outboard.scoreboard.comparison.differences import (
    aliasing,
    as_exact_as,
    tensor_difference,
    tree_difference,
)
from torch_outboard.scoreboard.comparison.order_statistics import tie_check, ties_of
from torch_outboard.scoreboard.comparison.transplant import Transplant
from torch_outboard.scoreboard.exclusions import Exclusion
from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites import derivatives
from torch_outboard.scoreboard.suites.operators import check_backward, check_forward, check_one_out
from torch_outboard.scoreboard.suites.outputs import strided_out

CPU = torch.device("cpu")


def sample_of(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Such as the database has."""
    return SimpleNamespace(input=x, args=args, kwargs=kwargs, output_process_fn_grad=None)


def entry_of(function: Any, name: str = "made up") -> Any:
    return SimpleNamespace(
        name=name, full_name=name, op=function, supports_out=True, supports_autograd=True
    )


def test_transplant_keeps_strides_shared_memory_and_bits() -> None:
    base = torch.arange(12.0)
    view = base.as_strided((2, 3), (1, 4), 1)
    moved_view, moved_base = Transplant(CPU)((view, base))
    assert (moved_view.stride(), moved_view.storage_offset()) == ((1, 4), 1)
    assert moved_view.untyped_storage().data_ptr() == moved_base.untyped_storage().data_ptr()
    assert moved_base.data_ptr() != base.data_ptr()
    torch.testing.assert_close(moved_view, view)
    tensor = torch.tensor([1 + 2j, 3 - 1j])
    for bits in (tensor.conj(), tensor.conj().imag, torch._neg_view(tensor.real)):
        moved = Transplant(CPU)(bits)
        assert (moved.is_conj(), moved.is_neg()) == (bits.is_conj(), bits.is_neg())
        torch.testing.assert_close(moved, bits)


def test_differences_are_found() -> None:
    expected = torch.ones(2, 3)
    assert tensor_difference(expected, expected.clone(), CPU) is None
    for actual, reason in (
        (torch.zeros(2, 3), "values"),
        (torch.ones(3, 2), "shape"),
        (torch.ones(2, 3, dtype=torch.float64), "dtype"),
        (torch.ones(3, 2).T, "strides"),
        (torch._neg_view(-torch.ones(2, 3)), "conj or neg bit"),
        (torch.ones(2, 3, device="meta"), "device"),
    ):
        assert str(tensor_difference(expected, actual, CPU)).startswith(reason)
    one = torch.ones(1)
    assert tree_difference((one, 1.0), (one, 1.0 + 1e-9), CPU) is None
    for wrong in ((one, 2), [one, 1], (one, one), one):
        assert tree_difference((one, 1), wrong, CPU) is not None
    assert aliasing(expected[1:], [expected]) != aliasing(expected[1:].clone(), [expected])
    assert aliasing(expected, [expected]) != aliasing(expected.view(2, 3), [expected])
    assert aliasing(expected[1:], [expected]) == aliasing(expected.narrow(0, 1, 1), [expected])


def test_random_values_are_held_to_their_range() -> None:
    expected = torch.rand(100)
    assert tensor_difference(expected, torch.rand(100), CPU, values="random") is None
    for wrong in (torch.rand(100) - 2, torch.full((100,), float("nan")), torch.ones(100) * 3):
        assert tensor_difference(expected, wrong, CPU, values="random") is not None
    # A sum of random choices only has to be finite.
    assert tensor_difference(expected, torch.ones(100) * 3, CPU, values="random sums") is None
    wrong = torch.full((100,), float("inf"))
    assert tensor_difference(expected, wrong, CPU, values="random sums") is not None


def test_roundings_are_compared_with_float64() -> None:
    exact = torch.tensor([1.0, 1e-3, float("inf")], dtype=torch.float64)
    expected = exact.float() + torch.tensor([0, 1.2e-5, 0])
    near = exact.float() + torch.tensor([0, -2e-5, 0])
    assert tree_difference(expected, near, CPU) is not None
    assert tree_difference(expected, near, CPU, lambda: exact) is None
    for wrong in (near + 1e-4, near.clone().fill_(1), torch.full((3,), float("nan"))):
        assert tree_difference(expected, wrong, CPU, lambda: exact) is not None
    # Only sums are compared with their largest element.
    exact = torch.tensor([1000.0, 1], dtype=torch.float64)
    near = exact.float() + torch.tensor([0, 1e-4])
    assert as_exact_as(exact.float(), near, exact, sums=True)
    assert not as_exact_as(exact.float(), near, exact, sums=False)
    # The device may have CPU's error at the same element.
    assert as_exact_as(near, near, exact, sums=False)


def test_a_call_is_random_if_it_draws_and_sums_if_an_operator_below_it_may() -> None:
    x = torch.ones(1, 2, 3, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    for function, values, sums in (
        (lambda x: attention(x, x, x), "equal", True),
        (lambda x: attention(x, x, x, dropout_p=0.5), "random", True),
        (lambda x: torch.dropout(x, 0.5, False), "equal", False),
        (torch.exp, "equal", False),
        (torch.sum, "equal", True),
    ):
        assert nature(entry_of(function), sample_of(x)) == Nature(values, sums)
    assert nature(entry_of(torch.empty_like, "empty_like"), sample_of(x)).values == "undefined"


def test_an_exclusion_hides_the_failure_that_it_names() -> None:
    exclusion = Exclusion("add", "out", "a reason", failure="values: ", largest=0.1)
    text = "values: Mismatched elements: 1 / 2; Greatest absolute difference: {} at index"
    assert exclusion.owner == "PyTorch"
    assert exclusion.hides("out", text.format("0.05"))
    assert not exclusion.hides("out", text.format("0.5"))
    assert not exclusion.hides("forward", text.format("0.05"))
    assert not exclusion.hides("out", "RuntimeError: something else")


def test_indices_of_equal_values_are_compared_by_value() -> None:
    def ties(
        entry: str, x: torch.Tensor, *args: Any, backward: bool = False, **options: Any
    ) -> Any:
        return tie_check(ties_of(entry_of(None, entry), sample_of(x, *args, **options)), backward)

    x = torch.tensor([1.0, 0, 1, 0])
    differs = ties("sort", x)
    values, indices = torch.sort(x, stable=True)
    assert differs(0, values, values) is None
    assert differs(1, indices, torch.tensor([3, 1, 0, 2])) is None
    for wrong in ([1, 1, 0, 2], [0, 1, 3, 2], [1, 3, 0, 4], [1, 3, 0, -1]):
        assert differs(1, indices, torch.tensor(wrong)) is not None, wrong
    assert ties("sort", x, stable=True) is None
    keep = ties("kthvalue", torch.stack([x, x]), 1, 1)
    assert keep(1, torch.tensor([1, 1]), torch.tensor([3, 1])) is None
    assert keep(1, torch.tensor([1, 1]), torch.tensor([3, 2])) is not None
    assert ties("mode", torch.tensor(2.0))(1, torch.tensor(0), torch.tensor(0)) is None
    # Gradients of equal values together.
    differs = ties("sort", x, backward=True)
    expected = torch.tensor([3.0, 1, 4, 2])
    assert differs(0, expected, torch.tensor([4.0, 2, 3, 1])) is None
    assert differs(0, expected, torch.tensor([1.0, 3, 4, 2])) is not None


def test_where_cpu_raises_the_device_is_asked_and_arguments_are_compared() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    def changes(x: torch.Tensor) -> torch.Tensor:
        return refuses(x.fill_(7))

    def found(check: Any, *functions: Any, requires_grad: bool = False) -> list[str]:
        """By an entry that does something else at each call."""
        calls = iter((*functions, *functions[-1:] * 3))
        result = EntryResult()
        entry = entry_of(lambda x: next(calls)(x))
        check(entry, sample_of(torch.ones(2, requires_grad=requires_grad)), 0, CPU, result)
        assert result.samples == 0
        return [f"{f.check}: {f.reason.split(':')[0]}" for f in result.failures]

    for check, name in ((check_forward, "forward"), (check_backward, "backward")):
        given = found(check, refuses, lambda x: x + 1, requires_grad=True)
        assert given == [f"{name}: does not raise"]
    assert found(check_forward, refuses, changes) == ["mutation: argument 0"]


def test_gaps_of_results_are_looked_at() -> None:
    def writes_all(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.empty(0).set_(out.untyped_storage()).fill_(2)
        return out

    def leaves(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out

    x = torch.ones(2, 3)
    for function, reason in (
        (writes_all, "CPU writes between"), (leaves, "CPU writes other"), (torch.exp, "None"),
    ):  # fmt: skip
        known = Nature("equal", sums=False)
        args = (entry_of(function), sample_of(x), CPU, x.exp(), strided_out, known)
        assert str(check_one_out(*args)).startswith(reason)


def test_nothing_to_differentiate_is_no_success(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derivatives, "gradcheck", lambda op, sample, where, *_: where.type == "cpu")
    entry = entry_of(torch.exp)
    entry.sample_inputs = lambda *_, **__: [sample_of(torch.ones(2))]
    result = EntryResult(only=frozenset({"gradcheck"}))
    derivatives.check_entry(entry, torch.float64, device, result, Limits())
    assert [f.reason for f in result.failures] == ["nothing to differentiate, unlike on CPU"]


def test_results_without_double_precision_are_not_differentiated() -> None:
    for function, differentiates in ((lambda x: (x * 0).float(), False), (torch.exp, True)):
        entry = entry_of(function)
        entry.gradcheck_fast_mode, entry.gradcheck_nondet_tol = None, 0.0
        entry.gradcheck_wrapper = lambda op, x: op(x)
        x = torch.ones(2, dtype=torch.float64, requires_grad=True)
        entry.sample_inputs = lambda *_, x=x, **__: [sample_of(x)]
        result = EntryResult(only=frozenset({"gradcheck"}))
        derivatives.check_entry(entry, torch.float64, CPU, result, Limits())
        assert (result.samples, result.failures) == (int(differentiates), [])
