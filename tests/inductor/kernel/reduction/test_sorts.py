"""Sorts of short lines in kernels of compiled graphs, against eager CPU."""

from typing import Any

import pytest
import torch
from torch._inductor import config

from tests.inductor.support import check, check_sizes, checked_code, launches, moved

pytestmark = pytest.mark.by_turns(3)

NAN, INF = float("nan"), float("inf")
# Of each kind of key.
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bool, torch.uint8, torch.int32, torch.int64
]  # fmt: skip
# Lines alone, fewer than the lanes of a vector, and more; lengths around powers of two.
SHAPES = [(1, 7), (3, 512), (5, 33), (37, 64), (20, 2)]


def _values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """With many equal ones, both zeros, the least and greatest, and NaN."""
    if dtype == torch.bool:
        return torch.randint(0, 2, shape).bool()
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        values = torch.randint(-9 if dtype.is_signed else 0, 9, shape).to(dtype)
        flat = values.view(-1)
        flat[::11], flat[::13] = info.max, info.min
        return values
    values = torch.randn(shape).mul(4).round().to(dtype)  # -0.0 is among them
    flat = values.view(-1)
    for index, special in enumerate((NAN, INF, -INF, -0.0, 0.0)):
        flat[index :: 11 + 2 * index] = special
    return values


def _ascending(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.sort(x, stable=True)


@pytest.mark.by_turns(5)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_indices(dtype: torch.dtype, device: torch.device):
    """The same values in the same indices as CPU's stable sort, to the sign of zeros."""
    lines = [_values(shape, dtype) for shape in SHAPES]

    def each(*lines: torch.Tensor) -> list[torch.Tensor]:
        sorts = [torch.sort(x, stable=True, descending=d) for x in lines for d in (False, True)]
        return [result for both in sorts for result in both]

    results = torch.compile(each)(*moved(lines, device))
    for result, expected in zip(moved(results, "cpu"), each(*lines), strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        if dtype.is_floating_point and expected.is_floating_point():
            numbers = ~expected.isnan()
            assert torch.equal(result.signbit()[numbers], expected.signbit()[numbers])


def test_what_stands_around_is_in_the_kernel(device: torch.device):
    """One launch, without memory for what was sorted."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = (x * 2 + y).sort()
        return values.exp() * y, indices + 1

    code = checked_code(function, torch.randn(37, 50), torch.randn(37, 50), device=device)
    assert launches(code) == 1
    assert "aten.sort" not in code.split("program.build", 1)[1]


def test_dimensions(device: torch.device):
    """Of a view, where lines lie beside each other."""

    def function(x: torch.Tensor) -> list[Any]:
        part = x.transpose(0, 2)[::2, 1:]
        return [part.sort(dim) for dim in range(3)]

    check(function, torch.randn(20, 18, 33), device=device)


def test_several_sorts_and_reductions(device: torch.device):
    """Of what was reduced, of the same in the other direction, and of what was sorted."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        centred = x - x.mean(-1, keepdim=True)
        a, at = centred.sort()
        b, _ = y.sort(descending=True)
        c, _ = centred.sort(descending=True)
        _, back = at.sort()
        reduced = centred.amax(-1), a.softmax(-1), a.cumsum(-1)
        return a, b, c, back, (a + b).sort()[0], *reduced

    check(function, torch.randn(37, 50), torch.randn(37, 50), device=device)


def test_a_line_that_is_replaced(device: torch.device):
    """Sorted into the memory that it came from, and read by others before."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        z = y + 1
        x.copy_(y.sort()[0])
        return x + 1, z

    check(function, torch.randn(21, 30), device=device)


def test_lines_of_any_number(device: torch.device):
    lines = [(_values((count, 20), torch.float32),) for count in (2, 16, 33, 100)]
    check_sizes(_ascending, *lines, device=device)


def test_lines_of_a_length_with_an_end(device: torch.device):
    """Open, and known to be short."""
    function = torch.compile(_ascending)
    for length in (40, 100, 17, 256):
        x = torch.randn(20, length)
        y = x.to(device)
        torch._dynamo.mark_dynamic(y, 1, min=2, max=256)
        torch.testing.assert_close(moved(function(y), "cpu"), _ascending(x))


def test_long_lines_are_sorted_by_the_operator(device: torch.device):
    code = checked_code(_ascending, torch.randn(3, 700), device=device)
    assert "torch.ops.aten.sort" in code


def test_selections_by_sorts(device: torch.device):
    """A setting of PyTorch's with which lines of any length would be sorted by kernels."""
    if not hasattr(config.triton, "decompose_sort_ops"):
        pytest.skip("this PyTorch has no setting for selections by sorts")
    with config.patch({"triton.decompose_sort_ops": True}):
        check(lambda x: (x.sort(), x.median(-1), x.topk(3)), torch.randn(3, 700), device=device)


def test_combo_kernels(device: torch.device):
    """Lines of different lengths, in one launch."""

    def function(*lines: torch.Tensor) -> list[torch.Tensor]:
        return [x.sort()[0] for x in lines]

    lines = [torch.randn(4, size) for size in (20, 30, 20)]
    with config.patch({"combo_kernels": True, "combo_kernel_per_subkernel_blocks": False}):
        check(function, *lines, device=device)
