"""The sweep over arguments itself: which calls it makes, and that it notices what differs."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from tests.opinfo.arguments import checks
from tests.opinfo.arguments.calls import NO_CALL, ArgumentsCall, as_form, bind, calls_of, reached
from tests.opinfo.arguments.exclusions import EXCLUSIONS
from tests.opinfo.arguments.isolated import CpuRun, is_defined, run_each
from tests.opinfo.arguments.variations import REVERSED, Variation, variations
from tests.opinfo.checks import EntryResult, Outcome
from torch_outboard.ops import tables

CPU = torch.device("cpu")


def test_every_overload_of_the_tables_has_a_call_or_a_reason() -> None:
    """`python -m tests.opinfo.arguments.calls` looks for the calls of new ones."""
    assert set(tables.families()) == {*reached(), *NO_CALL}
    assert not set(reached()) & set(NO_CALL)


def test_exclusions_name_overloads() -> None:
    assert {exclusion.entry for exclusion in EXCLUSIONS} <= set(reached())


@pytest.mark.parametrize(
    ("overload", "other", "argument"),
    [
        ("aten::add.Tensor", "aten::add.out", "out"),
        ("aten::add.Tensor", "aten::add_.Tensor", "self"),
        ("aten::sub.Tensor", "aten::_foreach_sub.Scalar", "scalar"),
    ],
)
def test_forms_of_an_operator(overload: str, other: str, argument: str) -> None:
    call = ArgumentsCall(overload, bind(overload, (torch.ones(2, 3), torch.ones(3)), {"alpha": 2}))
    form = as_form(call, other)
    if form is None:
        assert argument == "scalar"  # another operator has other arguments
        return
    assert form.arguments["alpha"] == 2
    assert torch.equal(form.run(), call.run())
    assert argument in form.arguments


def labels(overload: str) -> set[str]:
    return {v.label for call in calls_of(overload) for v in variations(call)}


@pytest.mark.parametrize(
    ("overload", "expected"),
    [
        ("aten::add.Tensor", {"alpha = True", "alpha = 2j", "alpha = nan", "alpha = 2**33"}),
        ("aten::sum.dim_IntList", {"dim = []", "dtype = bool", "keepdim = False"}),
        (
            "aten::index_add.out",
            {
                "index of shape (0,)", "source of dtype complex64", "out expanded",
                "out the same tensor as the read self", "out one element behind source",
                "self on the host", "index on the device", "self with dimensions in reverse order",
            },
        ),
        ("aten::cat", {"tensors = []", "tensors without the last"}),
    ],
)  # fmt: skip
def test_variations(overload: str, expected: set[str]) -> None:
    assert expected <= labels(overload)


def found(overload: str, label: str, monkeypatch: Any, wrong: Any) -> str | None:
    """The difference, if the second of the two runs does something else."""
    [variation] = [v for v in variations(next(calls_of(overload))) if v.label == label]
    expected = next(run_each([variation.call]))
    with monkeypatch.context() as patch:
        patch.setattr("tests.opinfo.arguments.calls.run", wrong)
        return checks.check_variation(variation, expected, CPU, EntryResult())


def test_differences_are_found(monkeypatch: Any) -> None:
    def silent(name: str, arguments: dict[str, Any]) -> Any:
        return torch.ones(5, 5)

    def refusing(name: str, arguments: dict[str, Any]) -> Any:
        raise IndexError("not so")

    def differs(label: str, wrong: Any) -> str:
        return str(found("aten::add.Tensor", label, monkeypatch, wrong))

    assert differs("alpha = 2j", silent).startswith("does not raise: CPU's RuntimeError")
    assert differs("alpha = 2j", refusing).startswith("raises IndexError")
    assert differs("alpha = 2", refusing).startswith("IndexError")
    assert differs("alpha = nan", silent).startswith(("values", "shape"))


def test_tensors_on_two_devices_raise_except_numbers_of_the_host() -> None:
    def difference(
        host: torch.Tensor,
        actual: Outcome,
        overload: str = "aten::add.Tensor",
        name: str = "other",
    ) -> Any:
        call = ArgumentsCall(overload, {"self": torch.ones(2), name: host})
        variation = Variation("devices", "", call, name, "host")
        return checks.placement_difference(variation, Outcome(1), actual)

    vector, number = torch.ones(2), torch.tensor(1.0)
    assert difference(vector, Outcome(error=RuntimeError())) is None
    assert "does not raise" in difference(vector, Outcome(1))
    assert "not a RuntimeError" in difference(vector, Outcome(error=IndexError()))
    assert difference(number, Outcome(1)) == "compare"
    assert difference(vector, Outcome(1), "aten::index_put", "indices") == "compare"
    assert "does not raise" in difference(vector, Outcome(1), "aten::index_put", "values")
    assert difference(vector, Outcome(1), "aten::copy_", "src") == "compare"


def calls(*values: int) -> list[ArgumentsCall]:
    """That add numbers to something; what is no tensor raises."""
    return [
        ArgumentsCall("aten::add.Scalar", {"self": torch.ones(2), "other": value, "alpha": 1})
        for value in values
    ]


def test_a_kernel_that_ends_the_process_ends_only_its_own_call(monkeypatch: Any) -> None:
    def run(name: str, arguments: dict[str, Any]) -> Any:
        if arguments["other"] == 2:
            ctypes.string_at(0)
        return arguments["self"] + arguments["other"]

    monkeypatch.setattr("tests.opinfo.arguments.calls.run", run)
    first, second, third = run_each(calls(1, 2, 3))
    assert first.outcome is not None
    assert third.outcome is not None
    assert first.outcome.value.tolist() == [2, 2]
    assert third.outcome.value.tolist() == [4, 4]
    assert second.outcome is None
    assert "SIGSEGV" in second.without


def test_results_that_nobody_wrote_are_noticed(monkeypatch: Any) -> None:
    [call] = calls(1)
    assert is_defined(call)
    monkeypatch.setattr("tests.opinfo.arguments.calls.run", lambda *_: torch.empty(100))
    assert not is_defined(call)


def test_errors_are_compared_although_outputs_are_spoilt() -> None:
    """CPU resizes the output to a size that no memory holds, and then raises."""
    [call] = [
        v.call for v in variations(next(calls_of("aten::eye.m_out"))) if v.label == "n = 2**62"
    ]
    outcome = next(run_each([call])).outcome
    assert outcome is not None
    assert isinstance(outcome.error, RuntimeError)


@pytest.mark.parametrize("right", [True, False])
def test_a_layout_that_cpu_refuses_is_judged_by_the_recorded_call(
    right: bool, monkeypatch: Any
) -> None:
    call = next(calls_of("aten::add.Tensor"))
    [reversed_one] = [v for v in variations(call) if v.label == f"self {REVERSED}"]
    recorded = next(run_each([call]))
    refused = CpuRun(Outcome(error=RuntimeError("self must be contiguous")), {})
    if not right:
        monkeypatch.setattr("tests.opinfo.arguments.calls.run", lambda *_: torch.ones(5, 5))
    reason = checks.unusable(reversed_one, refused, recorded, CPU, EntryResult())
    assert reason == ("what it does depends on strides" if right else None)
