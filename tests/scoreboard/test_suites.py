"""Each check of the suites notices what it is there for, and passes what is right."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from torch_outboard.scoreboard.findings import EntryResult, Limits
from torch_outboard.scoreboard.suites import (
    contexts,
    foreach,
    functions,
    inputs,
    modules,
    optimizers,
)

X = torch.tensor([[0.5, 1.5, 2.5], [0.25, 1.25, 2.25]])


def entry_of(function: Callable[..., Any], *samples: Any) -> Any:
    """Such as the database has."""

    def inputs_of(*_: Any, **__: Any) -> Iterator[Any]:
        from torch.testing._internal.opinfo.core import SampleInput

        yield from (SampleInput(*s) if isinstance(s, tuple) else SampleInput(s) for s in samples)

    return SimpleNamespace(
        name="made up", full_name="made up", op=function, supports_autograd=True,
        supports_forward_ad=True, supports_out=True, inplace_variant=None,
        sample_inputs=inputs_of, reference_inputs=inputs_of, reference_inputs_func=inputs_of,
        supported_backward_dtypes=lambda device: (),
    )  # fmt: skip


def found(
    suite: Any, check: str, op: Any, device: torch.device, dtype: torch.dtype = torch.float32
) -> list[str]:
    """The first words of what a check finds."""
    result = EntryResult(only=frozenset({check}))
    suite.check_entry(op, dtype, device, result, Limits())
    assert result.samples
    assert result.checks == {check}
    return [f.reason.split(":")[0] for f in result.failures]


def off(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """By one on the device."""
    return lambda x, *args: function(x, *args) + (0 if x.is_cpu else 1)


@pytest.mark.parametrize("check", ["vmap", "vjp", "jvp", "vmap of vjp"])
def test_transforms(check: str, device: torch.device) -> None:
    def steeper(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum(-1) * (1 if x.is_cpu else 2)

    assert not found(functions, check, entry_of(lambda x: (x * x).sum(-1), X), device)
    assert found(functions, check, entry_of(steeper, X), device) == ["values"]


def test_fake_tensors(device: torch.device) -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    def wider(x: torch.Tensor) -> torch.Tensor:
        return x.double() if isinstance(x, FakeTensor) and x.device.type != "cpu" else x + 0

    def wider_everywhere(x: torch.Tensor) -> torch.Tensor:
        return x.double() if isinstance(x, FakeTensor) else x + 0

    assert not found(contexts, "fake", entry_of(torch.sin, X), device)
    assert found(contexts, "fake", entry_of(wider, X), device) == ["result 0"]
    # PyTorch's own fault.
    assert not found(contexts, "fake", entry_of(wider_everywhere, X), device)


def test_autocast(device: torch.device) -> None:
    def far(x: torch.Tensor) -> torch.Tensor:
        return x + (9 if torch.is_autocast_enabled(device.type) else 0)

    def half(x: torch.Tensor) -> torch.Tensor:
        return x.half() if torch.is_autocast_enabled(device.type) else x

    def refuses(x: torch.Tensor) -> torch.Tensor:
        assert not torch.is_autocast_enabled(device.type), "no"
        return x

    product = entry_of(torch.matmul, (X, X.mT.contiguous()))
    assert not found(contexts, "autocast", product, device)
    assert found(contexts, "autocast", entry_of(far, X), device) == ["values"]
    assert found(contexts, "autocast", entry_of(half, X), device)[0].startswith("dtype is")
    assert found(contexts, "autocast", entry_of(refuses, X), device) == ["AssertionError"]


def test_inputs(device: torch.device) -> None:
    z = torch.complex(X, -X)

    def reads(x: torch.Tensor) -> torch.Tensor:
        return x.resolve_conj().resolve_neg() + 0

    def forgets(x: torch.Tensor) -> torch.Tensor:
        bits = not x.is_cpu and (x.is_conj() or x.is_neg())
        return reads(x) * (2 if bits else 1)

    def adds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).to(x.dtype) if not x.is_cpu else x + y

    for check in ("conj view", "neg view"):
        assert not found(inputs, check, entry_of(reads, z), device, torch.complex64)
        assert found(inputs, check, entry_of(forgets, z), device, torch.complex64) == ["values"]
    assert not found(inputs, "promotion", entry_of(torch.add, (X, X.clone())), device)
    # Beside float64 and complex64 alone the result has another dtype.
    wrong = found(inputs, "promotion", entry_of(adds, (X, X.clone())), device)
    assert len(wrong) == 3
    assert all(reason.startswith("dtype is") for reason in wrong)
    references = entry_of(off(torch.sin), X)
    assert found(inputs, "reference inputs", references, device) == ["values"]


def test_lists(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def adds(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return [t + (1 if t.is_cpu else 2) for t in x]

    def adds_in_place(x: list[torch.Tensor]) -> None:
        for t in x:
            t += 1 if t.is_cpu else 2

    op = entry_of(adds, [X, X.clone()])
    op.inplace_variant = adds_in_place
    monkeypatch.setattr(foreach, "operators", lambda: {"made up": op})
    result = EntryResult()
    foreach.check("made up", "float32", device, result, Limits())
    assert [f.check for f in result.failures] == ["foreach", "foreach inplace"]


def test_a_list_may_be_nearer_to_float64_than_on_cpu(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def adds_a_third(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return [t + 1 / 3 for t in x]

    def in_place(x: list[torch.Tensor]) -> None:
        for t in x:
            t += 0.25 if t.is_cpu else 1 / 3

    op = entry_of(adds_a_third, [X, X.clone()])
    op.supports_out, op.supports_autograd, op.inplace_variant = False, False, in_place
    monkeypatch.setattr(foreach, "operators", lambda: {"made up": op})
    result = EntryResult()
    foreach.check("made up", "float32", device, result, Limits())
    assert result.checks == {"foreach inplace"}
    assert result.failures == []


def test_indices_of_equal_values_under_vmap(device: torch.device) -> None:
    def last_of_equals(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.kthvalue(x, k)
        return values, indices if x.is_cpu else indices ^ 1

    def of_another_value(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = torch.kthvalue(x, k)
        return values, indices if x.is_cpu else indices ^ 2

    pairs = torch.tensor([[3.0, 3.0, 1.0, 1.0]])
    for function, failures in ((last_of_equals, []), (of_another_value, ["result 1"])):
        op = entry_of(function, (pairs, 2))
        op.full_name = "kthvalue"
        assert found(functions, "vmap", op, device) == failures


class Layer(nn.Module):
    """With statistics and a weight."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def wrong(kind: str) -> int:
            return int(self.fault == kind and not x.is_cpu)

        self.seen += x.detach().mean(0) + wrong("state")
        slope = (self.weight - self.weight.detach()) * wrong("backward")
        return x * self.weight + wrong("forward") + slope


@pytest.mark.parametrize("fault", ["", "forward", "backward", "state"])
def test_modules(fault: str, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def inputs_of(*_: Any, **__: Any) -> Iterator[Any]:
        def given(*args: Any, **kwargs: Any) -> Any:
            return SimpleNamespace(args=args, kwargs=kwargs)

        x = X.clone().requires_grad_()
        yield SimpleNamespace(constructor_input=given(fault), forward_input=given(x))

    info = SimpleNamespace(
        module_cls=Layer, module_inputs_func=inputs_of, is_lazy=False, train_and_eval_differ=True
    )
    monkeypatch.setattr(modules, "modules", lambda: {"made up": info})
    result = EntryResult()
    modules.check("made up", "float32", device, result, Limits())
    assert result.samples == 2
    assert {f.check for f in result.failures} == ({f"module {fault}"} if fault else set())


class Descent(torch.optim.SGD):
    """That goes wrong on a device."""

    fault = ""

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        loss = super().step(closure)
        group = self.param_groups[0]
        kinds = {"loop": group["foreach"] is False, "foreach": group["foreach"]}
        first = group["params"][0]
        if not first.is_cpu and kinds.get(self.fault):
            with torch.no_grad():
                first += 1
        return loss

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        if self.fault == "saved" and not self.param_groups[0]["params"][0].is_cpu:
            self.param_groups[0]["lr"] = 1


@pytest.mark.parametrize(
    ("fault", "checks"),
    [
        ("", set()),
        ("loop", {"optimizer loop"}),
        ("foreach", {"optimizer foreach"}),
        ("saved", {"optimizer state"}),
    ],
)
def test_optimizers(
    fault: str, checks: set[str], device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"lr": 0.1, "momentum": 0.5}
    info = SimpleNamespace(
        optim_cls=Descent, supported_impls=("foreach",), only_supports_sparse_grads=False,
        optim_inputs_func=lambda device: [SimpleNamespace(kwargs=options)],
    )  # fmt: skip
    monkeypatch.setattr(Descent, "fault", fault)
    monkeypatch.setattr(optimizers, "optimizers", lambda: {"made up": info})
    result = EntryResult()
    optimizers.check("made up", "float32", device, result, Limits())
    assert {f.check for f in result.failures} == checks, result.failures
