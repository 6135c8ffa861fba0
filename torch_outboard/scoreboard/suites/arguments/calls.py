"""Calls of every overload that has a device kernel, to change one argument of each.

The calls are those that samples of the operator database end in: what reaches the dispatcher is
recorded on CPU, gradients included. In-place and `out=` forms take the arguments of their
functional form. An operator is reached by the entry of its name, else by the one that `reached.tsv`
names before it, or before one of its overloads.

    python -m torch_outboard.scoreboard.suites.arguments.calls

prints what is missing there when the operator tables have new overloads.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from torch_outboard.dispatch.dispatcher import overload_of
from torch_outboard.inspection.sample_arguments import attempts
from torch_outboard.scoreboard.comparison.differences import tensors_in
from torch_outboard.scoreboard.comparison.transplant import Transplant
from torch_outboard.scoreboard.findings import spread
from torch_outboard.scoreboard.suites.arguments.isolated import run_each
from torch_outboard.scoreboard.suites.arguments.written import WRITTEN
from torch_outboard.scoreboard.suites.database import operator, operators

CPU = torch.device("cpu")
REACHED = Path(__file__).with_name("reached.tsv")
# In place of an entry: arguments of `written.py`, or such that fit the schema.
BY_HAND, SCHEMA = "by hand", "schema"
# Overloads of the operator tables without a call, and why.
NO_CALL = {
    **dict.fromkeys(
        (
            "aten::convolution_overrideable",
            "aten::convolution_backward_overrideable",
            "aten::_thnn_fused_lstm_cell",
            "aten::_thnn_fused_lstm_cell_backward_impl",
            "aten::_thnn_fused_gru_cell",
            "aten::_thnn_fused_gru_cell_backward",
            "outboard_layers::lstm_steps",
            "outboard_layers::lstm_steps_backward",
        ),
        "CPU has no kernel",
    ),
    **dict.fromkeys(
        (
            "aten::_native_batch_norm_legit.out",
            "aten::_native_batch_norm_legit.no_stats_out",
            "aten::_batch_norm_with_update.out",
        ),
        "CPU's kernel ends the process, whatever the arguments",
    ),
}
SAMPLES = 6  # of an entry and dtype, that are recorded
LARGEST = 2048  # elements of a tensor


@dataclass(frozen=True)
class ArgumentsCall:
    """An overload and its arguments by name; those that have a default are there, too."""

    overload: str
    arguments: dict[str, Any]

    def on(self, device: torch.device) -> ArgumentsCall:
        """With copies on a device, which share memory as the originals do."""
        return ArgumentsCall(self.overload, Transplant(device)(self.arguments))

    def run(self) -> Any:
        return run(self.overload, self.arguments)


def run(overload: str, arguments: dict[str, Any]) -> Any:
    positional, keywords = unbind(overload, arguments)
    return overload_of(overload)(*positional, **keywords)


def unbind(overload: str, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional arguments and keywords."""
    schema = overload_of(overload)._schema.arguments
    positional = [arguments[a.name] for a in schema if not a.kwarg_only]
    return positional, {a.name: arguments[a.name] for a in schema if a.kwarg_only}


def bind(overload: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, with defaults."""
    schema = overload_of(overload)._schema.arguments
    bound = {a.name: a.default_value for a in schema if a.has_default_value()}
    bound.update(zip((a.name for a in schema if not a.kwarg_only), args, strict=False))
    return {**bound, **kwargs}


def base_name(overload: str) -> str:
    """`add` of `aten::add_.Tensor`, in which the forms of an operator agree."""
    return overload.partition("::")[2].partition(".")[0].strip("_")


class Calls(TorchDispatchMode):
    """Keeps the calls of overloads whose base name is wanted, as they are before they run."""

    def __init__(self, wanted: Collection[str] | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wanted = wanted
        self.calls: list[ArgumentsCall] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        if self.wanted is None or base_name(name) in self.wanted:
            bound = bind(name, args, kwargs)
            with contextlib.suppress(Exception):  # of what cannot be copied
                self.calls.append(ArgumentsCall(name, bound).on(CPU))
        return func(*args, **kwargs)


def recorded(entry: str, dtype: torch.dtype, wanted: Collection[str] | None) -> list[ArgumentsCall]:
    """The calls in which samples of an entry, and their gradients, end on CPU."""
    op = operator(entry)
    if dtype not in op.supported_dtypes("cpu"):
        return []
    differentiable = (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd
    mode = Calls(wanted)
    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
        for _, sample in spread(samples, SAMPLES):
            with contextlib.suppress(Exception), mode:
                value = op.op(sample.input, *sample.args, **sample.kwargs)
                outputs = [t for t in tensors_in(value) if t.requires_grad]
                if outputs:
                    torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
    return mode.calls


# ---- forms of an operator -----------------------------------------------------------------------


def _fitting(value: Any, kind: str) -> Any:
    """The value as an argument of another type of the schema: a number for a tensor ..."""
    if kind == "number" and isinstance(value, torch.Tensor):
        return 2
    if kind == "Tensor" and isinstance(value, (bool, int, float)):
        return torch.tensor(value)
    if kind == "List[number]" and not isinstance(value, (list, tuple)):
        return [2, 2]
    return value


def as_form(call: ArgumentsCall, overload: str) -> ArgumentsCall | None:
    """The call of another form of the same operator; None if that takes other arguments."""
    schema = overload_of(overload)._schema
    arguments: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.is_out:
            continue
        if argument.name in call.arguments:
            value = call.arguments[argument.name]
            arguments[argument.name] = _fitting(value, str(argument.type))
        elif argument.has_default_value():
            arguments[argument.name] = argument.default_value
        else:
            return None
    names = [a.name for a in schema.arguments if a.is_out]
    if names:
        results = _functional_results(overload, arguments)
        if results is None:
            return None
        # A list of outputs is one argument.
        outs = [results] if len(names) == 1 and isinstance(results, list) else tensors_in(results)
        if len(outs) != len(names):
            return None
        arguments |= dict(zip(names, tree_map(_like, outs), strict=True))
    return ArgumentsCall(overload, arguments).on(CPU)


def _full_name(operator: str, overload: str) -> str:
    return operator if overload == "default" else f"{operator}.{overload}"


def _like(result: torch.Tensor) -> torch.Tensor:
    return torch.zeros(result.shape, dtype=result.dtype)


def _functional_results(overload: str, arguments: dict[str, Any]) -> Any:
    """The result of the form without outputs; None if there is no such form, or it raises."""
    packet = overload_of(overload).overloadpacket
    for name in packet.overloads():
        schema = getattr(packet, name)._schema
        needed = {a.name for a in schema.arguments if not a.has_default_value()}
        every = {a.name for a in schema.arguments}
        if schema.is_mutable or not needed <= set(arguments) <= every:
            continue
        with contextlib.suppress(Exception):
            copies = bind(_full_name(schema.name, name), (), Transplant(CPU)(arguments))
            return run(_full_name(schema.name, name), copies)
    return None


# ---- which calls stand for an overload ----------------------------------------------------------


def _rank(call: ArgumentsCall) -> tuple[bool, int, int, int]:
    """Greatest for small tensors with several elements, and arguments that are not defaults."""
    sizes = [t.numel() for t in tensors_in(call.arguments)]
    usable = all(0 < n <= LARGEST for n in sizes)
    schema = overload_of(call.overload)._schema.arguments
    given = sum(
        isinstance(value := call.arguments.get(a.name), torch.Tensor)
        or (a.has_default_value() and value != a.default_value)
        for a in schema
    )
    return usable, sum(n > 1 for n in sizes), given, -sum(sizes)


def _runs(call: ArgumentsCall) -> bool:
    """Whether CPU takes it."""
    outcome = next(run_each([call])).outcome
    return outcome is not None and outcome.error is None


def best_call(overload: str, calls: list[ArgumentsCall]) -> ArgumentsCall | None:
    """Of recorded calls the one to vary: of this overload, else of another form of it."""
    own = [call for call in calls if call.overload == overload]
    others = [
        c for c in calls if c.overload != overload and base_name(c.overload) == base_name(overload)
    ]
    for call in sorted(own, key=_rank, reverse=True)[:3]:
        if _runs(call):
            return call
    for call in sorted(others, key=_rank, reverse=True)[:6]:
        form = as_form(call, overload)
        if form is not None and _runs(form):
            return form
    return None


def by_schema(overload: str) -> ArgumentsCall | None:
    """Arguments made from the schema alone."""
    schema = overload_of(overload)._schema
    if any(a.is_out for a in schema.arguments):
        packet = overload_of(overload).overloadpacket
        forms = [n for n in packet.overloads() if not getattr(packet, n)._schema.is_mutable]
        for name in forms:
            functional = by_schema(_full_name(schema.name, name))
            form = functional and as_form(functional, overload)
            if form and _runs(form):
                return form
        return None
    for dtype in (torch.float32, torch.int64):
        for args, kwargs in attempts(overload, dtype, CPU, strided=False):
            small = tree_map(_smaller, (args, kwargs))
            call = ArgumentsCall(overload, bind(overload, *small)).on(CPU)
            if _runs(call):
                return call
    return None


def by_hand(overload: str) -> ArgumentsCall | None:
    """Of `written.py`, which has a form of the operator."""
    if overload in WRITTEN:
        return ArgumentsCall(overload, bind(overload, (), WRITTEN[overload]()))
    forms = [name for name in WRITTEN if base_name(name) == base_name(overload)]
    calls = (by_hand(name) for name in forms)
    return next((form for call in calls if call and (form := as_form(call, overload))), None)


def _smaller(value: Any) -> Any:
    """At most 4 elements along a dimension."""
    if isinstance(value, torch.Tensor):
        return value[tuple(slice(0, 4) for _ in value.shape)].contiguous()
    return min(value, 4) if type(value) is int else value


def calls_of(overload: str) -> Iterator[ArgumentsCall]:
    """The calls to vary: one on floating-point numbers, and one on integers if there is any."""
    entry = reached()[overload]
    torch.manual_seed(0)
    if entry == BY_HAND:
        call = by_hand(overload)
        yield from [call] if call else []
    elif entry == SCHEMA:
        call = by_schema(overload)
        yield from [call] if call else []
    else:
        for dtype in (torch.float32, torch.int64):
            calls = recorded(entry, dtype, {base_name(overload)})
            if (call := best_call(overload, calls)) is not None:
                yield call


@cache
def reached() -> dict[str, str]:
    """The entry that stands for each overload of the operator tables, BY_HAND or SCHEMA."""
    from torch_outboard.ops import tables

    overloads = [name for name in tables.families() if name not in NO_CALL]
    return {name: entry for name in overloads if (entry := _entry_of(name))}


@cache
def entries_by_operator() -> tuple[dict[str, str], ...]:
    """Of names that `reached.tsv` lists, that entries have, and that `written.py` has."""
    rows = (line.split("\t") for line in REACHED.read_text().splitlines())
    listed = {name: entry for entry, names in rows for name in names.split()}
    named = {e.removeprefix("nn.functional.").replace(".", "_"): e for e in operators()}
    named = {name.strip("_"): entry for name, entry in named.items()} | named
    return listed, named, {base_name(name): BY_HAND for name in WRITTEN}


def _entry_of(overload: str) -> str | None:
    """By the overload, by its operator, or by the operator whose derivative that is."""
    listed, *others = entries_by_operator()
    if overload in listed or overload in WRITTEN:
        return listed.get(overload, BY_HAND)
    operator = base_name(overload)
    if operator.startswith("foreach_"):  # they are in a separate database
        return SCHEMA
    for name in (operator, operator.removesuffix("_backward")):
        for table in (listed, *others):
            if name in table:
                return table[name]
    return None


def print_missing() -> None:
    """Lines for `reached.tsv` of the overloads that have no entry."""
    from torch_outboard.ops import tables

    torch.set_num_threads(1)  # forks have none of the other threads
    overloads = [name for name in tables.families() if name not in {*reached(), *NO_CALL}]
    bases = {base_name(name) for name in overloads}
    found: dict[str, list[tuple[str, list[ArgumentsCall]]]] = defaultdict(list)
    for entry in operators():
        calls = recorded(entry, torch.float32, bases) or recorded(entry, torch.int64, bases)
        for base in {base_name(call.overload) for call in calls}:
            found[base].append((entry, [c for c in calls if base_name(c.overload) == base]))
    for overload in overloads:
        if os.fork() == 0:  # some CPU kernels end the process
            print(f"{choose(overload, found[base_name(overload)])}\t{overload}", flush=True)
            os._exit(0)
        os.wait()


def choose(overload: str, found: list[tuple[str, list[ArgumentsCall]]]) -> str:
    """The entry named as the operator, else the one that brings the richest call; "" if none."""
    call = by_hand(overload)
    if overload in WRITTEN:
        return BY_HAND if call and _runs(call) else ""

    def order(item: tuple[str, list[ArgumentsCall]]) -> tuple[bool, bool, Any]:
        entry, calls = item
        own = [call for call in calls if call.overload == overload]
        named = base_name(f"::{entry}") == base_name(overload)
        return named, bool(own), max(map(_rank, own or calls))

    for entry, calls in sorted(found, key=order, reverse=True)[:8]:
        if best_call(overload, calls) is not None:
            return entry
    if call and _runs(call):
        return BY_HAND
    return SCHEMA if by_schema(overload) is not None else ""


if __name__ == "__main__":
    print_missing()
