"""The sweep over arguments itself: which calls it makes, and that it notices what differs."""

import ctypes
from typing import Any

import pytest
import torch

from torch_outboard.ops import tables
from torch_outboard.scoreboard.comparison.calls import Outcome
from torch_outboard.scoreboard.findings import EntryResult
from torch_outboard.scoreboard.suites.arguments import checks
from torch_outboard.scoreboard.suites.arguments.calls import (
    NO_CALL,
    ArgumentsCall,
    as_form,
    base_name,
    bind,
    entries_by_operator,
    reached,
)
from torch_outboard.scoreboard.suites.arguments.isolated import CpuRun, is_defined, run_each
from torch_outboard.scoreboard.suites.arguments.variations import REVERSED, Variation, variations

CPU = torch.device("cpu")


def call_of(overload: str, *args: Any) -> ArgumentsCall:
    return ArgumentsCall(overload, bind(overload, args, {}))


def named(call: ArgumentsCall) -> dict[str, Variation]:
    return {variation.label: variation for variation in variations(call)}


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the entries are those of PyTorch 2.13"
)
def test_every_overload_of_the_tables_has_an_entry_or_a_reason() -> None:
    """suites/arguments/calls.py looks for the entries of new ones."""
    assert set(tables.families()) == {*reached(), *NO_CALL}
    assert set(entries_by_operator()[0]) <= {*reached(), *map(base_name, reached())}


def test_variations() -> None:
    index = torch.tensor([2, 0])
    call = as_form(
        call_of("aten::index_add", torch.ones(3, 2), 0, index, torch.ones(2, 2)),
        "aten::index_add.out",
    )
    assert call is not None
    assert {
        "index of shape (0,)", "source of dtype complex64", "out expanded", "dim = 2**33",
        "out the same tensor as the read self", "out one element behind source", "alpha = nan",
        "self on the host", "index on the device", "self with dimensions in reverse order",
    } <= set(named(call))  # fmt: skip
    listed = named(call_of("aten::cat", [torch.ones(2), torch.ones(3)]))
    assert {"tensors = []", "tensors without the last"} <= set(listed)


def test_differences_are_found(monkeypatch: Any) -> None:
    variants = named(call_of("aten::add.Tensor", torch.ones(2, 3), torch.ones(2, 3)))

    def differs(label: str, wrong: Any) -> str:
        """If the second of the two runs does something else."""
        expected = next(run_each([variants[label].call]))
        with monkeypatch.context() as patch:
            patch.setattr("torch_outboard.scoreboard.suites.arguments.calls.run", wrong)
            return str(checks.check_variation(variants[label], expected, CPU, EntryResult()))

    def refusing(name: str, arguments: dict[str, Any]) -> Any:
        raise IndexError("not so")

    def silent(name: str, arguments: dict[str, Any]) -> Any:
        return torch.ones(2, 3)

    assert differs("alpha = 2j", silent).startswith("does not raise: CPU's RuntimeError")
    assert differs("alpha = 2j", refusing).startswith("raises IndexError")
    assert differs("alpha = 2", refusing).startswith("IndexError")
    assert differs("alpha = nan", silent).startswith("values")


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


def test_cpu_kernels_that_break_end_only_their_own_call(monkeypatch: Any) -> None:
    def run(name: str, arguments: dict[str, Any]) -> Any:
        if arguments["other"] == 2:
            ctypes.string_at(0)
        return arguments["self"] + arguments["other"]

    calls = [call_of("aten::add.Scalar", torch.ones(2), value) for value in (1, 2, 3)]
    assert is_defined(calls[0])
    monkeypatch.setattr("torch_outboard.scoreboard.suites.arguments.calls.run", run)
    first, second, third = run_each(calls)
    assert first.outcome is not None
    assert third.outcome is not None
    assert (first.outcome.value.tolist(), third.outcome.value.tolist()) == ([2, 2], [4, 4])
    assert second.outcome is None
    assert "SIGSEGV" in second.without
    # Unwritten results are noticed, too.
    monkeypatch.setattr(
        "torch_outboard.scoreboard.suites.arguments.calls.run", lambda *_: torch.empty(100)
    )
    assert not is_defined(calls[0])


@pytest.mark.parametrize("right", [True, False])
def test_a_layout_that_cpu_refuses_is_compared_with_the_recorded_call(
    right: bool, monkeypatch: Any
) -> None:
    call = call_of("aten::add.Tensor", torch.rand(2, 3), torch.rand(2, 3))
    recorded = next(run_each([call]))
    refused = CpuRun(Outcome(error=RuntimeError("self must be contiguous")), {})
    if not right:
        monkeypatch.setattr(
            "torch_outboard.scoreboard.suites.arguments.calls.run", lambda *_: torch.ones(2, 3)
        )
    reversed_one = named(call)[f"self {REVERSED}"]
    reason = checks.unusable(reversed_one, refused, recorded, CPU, EntryResult())
    assert reason == ("what it does depends on strides" if right else None)
