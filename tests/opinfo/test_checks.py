"""The sweep itself: that each check notices what it is there for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from tests import run
from tests.opinfo import gradcheck
from tests.opinfo.checks import (
    EntryResult,
    check_backward,
    check_forward,
    check_one_out,
    nature,
)
from tests.opinfo.comparison import (
    aliasing,
    as_exact_as,
    tensor_difference,
    tree_difference,
    value_difference,
)
from tests.opinfo.exclusions import Exclusion
from tests.opinfo.order_statistics import judge, ties_of
from tests.opinfo.outputs import strided_out
from tests.opinfo.sweep import Journal, on_device_summary, scoreboard
from tests.opinfo.transplant import Transplant
from tests.opinfo.worker import Answer

CPU = torch.device("cpu")
ENTRIES = {op.full_name: op for op in op_db}


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


def test_only_sums_are_judged_by_their_largest_element() -> None:
    exact = torch.tensor([1000.0, 1], dtype=torch.float64)
    expected = exact.float()
    near = exact.float() + torch.tensor([0, 1e-4])
    assert as_exact_as(expected, near, exact, sums=True)
    assert not as_exact_as(expected, near, exact, sums=False)
    # What CPU is wrong by, the device may be, at the same element.
    assert as_exact_as(exact.float() + torch.tensor([0, 1e-4]), near, exact, sums=False)


def sample(entry: str, **wanted: Any) -> SampleInput:
    for found in ENTRIES[entry].sample_inputs("cpu", torch.float32):
        if all(found.kwargs.get(name) == value for name, value in wanted.items()):
            return found
    raise AssertionError(f"{entry} has no sample with {wanted}")


def test_a_call_is_random_if_it_draws() -> None:
    attention = "nn.functional.scaled_dot_product_attention"
    for entry, wanted, values in (
        (attention, {"dropout_p": 0.0}, "equal"),
        (attention, {"dropout_p": 0.5}, "random"),
        ("nn.functional.dropout", {"p": 0.5, "training": True}, "random"),
        ("nn.functional.dropout", {"training": False}, "equal"),
        ("empty_like", {}, "undefined"),
    ):
        assert nature(ENTRIES[entry], sample(entry, **wanted)).values == values, (entry, wanted)


def test_a_call_sums_if_an_operator_below_it_may() -> None:
    for entry, sums in (("exp", False), ("mul", False), ("matmul", True), ("sum", True)):
        assert nature(ENTRIES[entry], sample(entry)).sums == sums, entry


def test_an_exclusion_hides_the_failure_that_it_names() -> None:
    exclusion = Exclusion("add", "out", "a reason", failure="values: ", largest=0.1)
    text = "values: Mismatched elements: 1 / 2; Greatest absolute difference: {} at index"
    assert exclusion.hides("out", text.format("0.05"))
    assert not exclusion.hides("out", text.format("0.5"))
    assert not exclusion.hides("forward", text.format("0.05"))
    assert not exclusion.hides("out", "RuntimeError: something else")


def ties(entry: str, x: torch.Tensor, *args: Any) -> Any:
    return judge(ties_of(ENTRIES[entry], SampleInput(x, args=args)))


def test_places_of_equal_values_are_judged_by_what_lies_there() -> None:
    x = torch.tensor([1.0, 0, 1, 0])
    judged = ties("sort", x)
    values, places = torch.sort(x, stable=True)
    assert judged(0, values, values) is None
    assert judged(1, places, torch.tensor([3, 1, 0, 2])) is None
    for wrong in ([1, 1, 0, 2], [0, 1, 3, 2], [1, 3, 0, 4], [1, 3, 0, -1]):
        assert judged(1, places, torch.tensor(wrong)) is not None, wrong
    assert judge(ties_of(ENTRIES["sort"], SampleInput(x, kwargs={"stable": True}))) is None
    keep = ties("kthvalue", torch.stack([x, x]), 1, 1)
    assert keep(1, torch.tensor([1, 1]), torch.tensor([3, 1])) is None
    assert keep(1, torch.tensor([1, 1]), torch.tensor([3, 2])) is not None
    assert ties("mode", torch.tensor(2.0))(1, torch.tensor(0), torch.tensor(0)) is None


def test_gradients_of_equal_values_are_judged_together() -> None:
    x = torch.tensor([1.0, 0, 1, 0])
    judged = judge(ties_of(ENTRIES["sort"], SampleInput(x)), backward=True)
    assert judged is not None
    expected = torch.tensor([3.0, 1, 4, 2])
    assert judged(0, expected, torch.tensor([4.0, 2, 3, 1])) is None
    assert judged(0, expected, torch.tensor([1.0, 3, 4, 2])) is not None


class Calls:
    """An entry of one function, which may do something else from the second call on."""

    name = full_name = "made up"
    supports_out = True
    supports_autograd = True

    def __init__(self, *functions: Any) -> None:
        self.functions = list(functions)

    def op(self, *args: Any, **kwargs: Any) -> Any:
        function = self.functions[0] if len(self.functions) == 1 else self.functions.pop(0)
        return function(*args, **kwargs)


def fails(*args: Any, **kwargs: Any) -> Any:
    raise ValueError("no")


def test_where_cpu_raises_the_device_is_asked_and_arguments_are_compared() -> None:
    for check in (check_forward, check_backward):
        result = EntryResult()
        entry: Any = Calls(fails, lambda x: x + 1)
        check(entry, SampleInput(torch.ones(2, requires_grad=True)), 0, CPU, result)
        assert [f.reason.split(":")[0] for f in result.failures] == ["does not raise"], check

    def changes(x: torch.Tensor) -> torch.Tensor:
        x.fill_(7)
        return fails()

    result = EntryResult()
    changing: Any = Calls(fails, changes)
    check_forward(changing, SampleInput(torch.ones(2)), 0, CPU, result)
    assert [f.check for f in result.failures] == ["mutation"]
    assert result.samples == 0


def test_gaps_of_results_are_looked_at() -> None:
    def writes_all(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.empty(0).set_(out.untyped_storage()).fill_(2)
        return out

    def leaves(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out

    x = torch.ones(2, 3)
    known = nature(ENTRIES["exp"], SampleInput(x))
    for function, reason in ((writes_all, "CPU writes between"), (leaves, "CPU writes other")):
        entry: Any = Calls(function)
        found = check_one_out(entry, SampleInput(x), CPU, x.exp(), strided_out, known)
        assert found is not None
        assert found.startswith(reason)
    assert not check_one_out(ENTRIES["exp"], SampleInput(x), CPU, x.exp(), strided_out, known)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (tmp_path / ".gitignore").write_text("*.so\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_whatever_tests_depend_on_changes_the_fingerprint(repository: Path) -> None:
    def write(name: str, text: str) -> None:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)

    seen = [run.fingerprint()]
    assert run.fingerprint() == seen[0]
    for name, text in (
        (".gitignore", "*.so\n*.log\n"),  # known to git
        ("new.py", "1"),  # not known yet
        ("new.py", "2"),
        ("torch_outboard/lib/built.so", "1"),  # ignored
        ("torch_outboard/lib/built.so", "2"),
    ):
        write(name, text)
        seen.append(run.fingerprint())
    assert len(set(seen)) == len(seen)
    write("a.log", "ignored")
    assert run.fingerprint() == seen[-1]


def test_answers_of_other_sources_are_not_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, resume=False, sources="first")
    journal.add(Answer("add", "right", 3, ran=[("aten::add.Tensor", "float32", "device")]))
    assert Journal(path, resume=True, sources="first").answers == journal.answers
    before = path.read_text()
    alone = Journal(path, resume=False, again=["mul"], sources="second")
    assert not alone.answers
    alone.add(Answer("mul", "right", 2))
    assert path.read_text() == before
    assert not Journal(path, resume=True, sources="second").answers


def test_the_scoreboard_counts_samples_and_failures() -> None:
    failures = [{"check": "out", "sample": n, "reason": f"values: {n}"} for n in range(3)]
    answers = [
        Answer("add", "right", 3, available=10),
        Answer("mul", "wrong", 2, available=5, failures=failures),
    ]
    board = scoreboard("float32", "shared", answers, "abc")
    assert "5 samples ran, of 15 in the database" in board
    assert "| mul | out | 0 | values: 0 (3 samples) |" in board
    assert "Sources: abc" in board


def test_ways_are_counted_by_operator_and_dtype() -> None:
    add = "aten::add.Tensor"
    answers = [
        Answer("add", "right", 1, ran=[(add, "float32", "device"), (add, "float64", "shared")]),
        Answer("sub", "right", 1, ran=[(add, "float32", "shared"), (add, "int64", "device")]),
    ]
    assert answers[0].served(on_device=True) == {(add, "float32")}
    assert answers[0].served(on_device=False) == {(add, "float64")}
    assert on_device_summary(answers) == (
        "1 operators (1 overloads, 2 with their dtypes) launched device kernels; 1 of the last "
        "took the host's way, too; 0 entries are right without a host kernel"
    )


def test_nothing_to_differentiate_is_no_success(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_sample(op: OpInfo, sample: SampleInput, place: torch.device) -> bool:
        return place.type == "cpu"

    monkeypatch.setattr(gradcheck, "check_sample", check_sample)
    with pytest.raises(AssertionError, match="nothing to differentiate"):
        gradcheck.check_entry(ENTRIES["exp"], device, 1)


def test_values_are_compared_in_both_parts_of_complex_numbers() -> None:
    assert value_difference(torch.tensor([1 + 1j]), torch.tensor([1 + 2j])) is not None
