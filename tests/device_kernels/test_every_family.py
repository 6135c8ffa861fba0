"""A kernel of every family, every kind of definition and every class of dtypes, compared with CPU.

`make test` runs a slice of the other tests of this folder. This file is run as a whole, so that
the slice has everything in it: each family and each kind of definition once on
contiguous and once on transposed tensors, each dtype by pointwise kernels, reductions and copies.
"""

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close
from torch.utils._pytree import tree_map

from tests.device_kernels.on_device import SUPPORT, compare
from torch_outboard import fallback
from torch_outboard.device import devices
from torch_outboard.dispatch.dispatcher import overload_of
from torch_outboard.inspection.sample_arguments import attempts
from torch_outboard.ops import tables
from torch_outboard.scoreboard.comparison.calls import CPU, attempt
from torch_outboard.scoreboard.comparison.differences import tree_difference
from torch_outboard.scoreboard.comparison.transplant import Transplant

# Of these only shapes and dtypes are known.
RANDOM = {"random"}
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64,
)  # fmt: skip


def subjects() -> dict[str, list[str]]:
    """Overloads by family and by kind, without `out=` forms."""
    found: dict[str, list[str]] = {}
    for definition in tables.definitions():
        for name in definition.overloads:
            if any(argument.is_out for argument in overload_of(name)._schema.arguments):
                continue
            found.setdefault(f"kind {definition.kind}", []).append(name)
    for name, family in tables.families().items():
        if not any(argument.is_out for argument in overload_of(name)._schema.arguments):
            found.setdefault(f"family {family}", []).append(name)
    return dict(sorted(found.items()))


SUBJECTS = subjects()


def _lstm_cell(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.lstm_cell(x, (h, c), w, w, w[:, 0], w[:, 1])


def _embedding_backward(gradient: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(gradient.size(0), device=gradient.device) % 5
    return torch.ops.aten.embedding_dense_backward(gradient, rows, 7, -1, False)


# Operators whose arguments have to fit together: functions and the shapes of what they take.
WRITTEN: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "attention": (functional.scaled_dot_product_attention, ((2, 3, 16, 8),) * 3),
    "embedding_backward": (_embedding_backward, ((12, 8),)),
    "normalization": (lambda x, w: functional.layer_norm(x, (16,), w, w), ((6, 16), (16,))),
    "recurrent": (_lstm_cell, ((4, 8), (4, 8), (4, 8), (32, 8))),
}
for _family in WRITTEN:
    del SUBJECTS[f"family {_family}"]


def values(argument: Any, seed: int = 0) -> Any:
    """The argument with numbers between 0.1 and 0.9 in place of ones."""
    if not isinstance(argument, torch.Tensor) or not argument.dtype.is_floating_point:
        return argument
    generator = torch.Generator().manual_seed(seed + argument.numel())
    return argument.copy_(torch.rand(argument.shape, generator=generator) * 0.8 + 0.1)


def launches(name: str, device: torch.device, strided: bool, compared: bool) -> bool:
    """Whether a kernel of the overload runs for some arguments; what comes out is compared."""
    for arguments in attempts(name, torch.float32, CPU, strided):
        filled = tree_map(values, arguments)
        outcomes = []
        for location in (CPU, device):
            positional, keywords = Transplant(location)(filled)
            with fallback.report() as report:
                outcomes.append(attempt(partial(overload_of(name), *positional, **keywords)))
        expected, actual = outcomes
        ran = any(row.placement == "device" and row.op == name for row in report.rows)
        if ran and expected.error is None and actual.error is None:
            results = actual.value, expected.value
            if compared:
                assert_close(*results, check_device=False, equal_nan=True, rtol=1e-4, atol=1e-4)
            else:
                assert not tree_difference(*results, CPU, values="undefined", strides=False)
            return True
    return False


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "transposed"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_kernel_runs_and_agrees_with_cpu(device, subject, strided):
    families = tables.families()
    assert any(
        launches(name, device, strided, compared=families[name] not in RANDOM)
        for name in SUBJECTS[subject]
    )


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "transposed"])
@pytest.mark.parametrize("family", WRITTEN)
def test_a_kernel_with_arguments_that_fit_agrees_with_cpu(device, family, strided):
    function, shapes = WRITTEN[family]
    generator = torch.Generator().manual_seed(0)
    arguments = []
    for shape in shapes:
        # Of attention tokens and heads, as models have it.
        a, b = (1, 2) if len(shape) == 4 else (0, -1)
        argument = torch.rand(shape, generator=generator)
        turned = argument.transpose(a, b).contiguous().transpose(a, b)
        arguments.append(turned if strided else argument)
    used = compare(device, function, *arguments, support=SUPPORT | {"aten::arange"})
    assert family in {tables.families().get(name) for name in used}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(device, dtype):
    kernel_dtypes = devices.get_device_capability(device)["kernel_dtypes"]
    if dtype == torch.float64 and dtype not in kernel_dtypes:
        pytest.skip("the device computes no float64")  # half precision is computed in float32
    x, y = (torch.arange(24).remainder(n).to(dtype).view(4, 6) for n in (3, 2))
    ours_x, ours_y = x.to(device), y.to(device)
    other = {torch.complex64: torch.complex64, torch.int32: torch.int64}.get(dtype, torch.int32)
    functions = {
        "aten::eq.Tensor": lambda a, b: a == b,
        "aten::mul.Tensor": lambda a, b: a.t() * b.t()[:, :1],
        "aten::sum.dim_IntList": lambda a, b: a.t().sum(0),
        "aten::_copy_from": lambda a, b: a[:, ::2].to(other).contiguous(),
    }
    for name, function in functions.items():
        with fallback.report() as report:
            result = function(ours_x, ours_y)
        assert_close(result.cpu(), function(x, y))
        assert any(row.op == name and row.placement == "device" for row in report.rows), report


def test_make_test_runs_all_of_this_file(request):
    here = [item for item in request.session.items if item.path == request.path]
    assert len(here) > 1
    assert [item.name for item in here if item.get_closest_marker("slow")] == []
    named = set(tables.families().values()) | {
        definition.kind for definition in tables.definitions()
    }
    assert {subject.partition(" ")[2] for subject in SUBJECTS} | set(WRITTEN) == named
