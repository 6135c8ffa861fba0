"""Matrix products by a library (run by test_library_drivers.py)."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map

import torch_outboard
from tests.library.library import Mode, calls, entry_calls
from torch_outboard import fallback, placement

DTYPES = (torch.float32, torch.float64, torch.int64, torch.complex64)
# Of the operator database.
ENTRIES = (
    "mm", "bmm", "mv", "dot", "addmm", "addmv", "addbmm", "baddbmm", "matmul",
    "nn.functional.linear",
)  # fmt: skip


def numbers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator, dtype=dtype)
    return torch.randint(-9, 9, sizes, generator=generator).to(dtype)


def moved(arguments: Any, device: torch.device) -> Any:
    """Copies on the device with the same strides."""

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).to(device)
        copy = whole.as_strided(value.size(), value.stride(), value.storage_offset())
        copy = copy.conj() if value.is_conj() else copy
        return copy.detach().requires_grad_(value.requires_grad)

    return tree_map(move, arguments)


def same(
    device: torch.device,
    function: Callable[..., Any],
    *arguments: Any,
    mode: Mode = Mode.NORMAL,
) -> Counter[str]:
    """Asserts that the device gives what CPU gives, and returns what its library did."""
    given = moved(arguments, device)
    expected = function(*arguments)
    with fallback.policy(copied="allow"), calls(mode) as made:
        result = function(*given)
        torch.accelerator.synchronize()
    for theirs, ours in zip(tree_leaves(expected), tree_leaves(result), strict=True):
        assert_close(ours.detach().cpu(), theirs.detach(), equal_nan=True)
        assert ours.stride() == theirs.stride()
    return made


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_entries(device: torch.device, dtype: torch.dtype) -> None:
    """With their gradients, in place, and with `out=` of all kinds."""
    for name in ENTRIES:
        made = entry_calls(name, dtype, device)
        # addbmm is a decomposition, which serves the dtypes that the device computes on.
        served = name != "addbmm" or dtype != torch.int64
        assert made["products"] > 0 or not served, name
        assert made["in_place"] > 0 or name != "addmm"
        assert made["biases"] > 0 or name != "nn.functional.linear"


def test_layouts(device: torch.device) -> None:
    a, b = numbers(6, 5), numbers(8, 6)
    for function, *given in (
        (torch.mm, a.t(), b.t()),
        (torch.mm, numbers(9, 10)[1::2, ::3], numbers(4, 3)),
        (torch.bmm, a.expand(3, 6, 5), numbers(5, 7).expand(3, 5, 7)),
        (torch.mm, numbers(1).expand(4, 5), numbers(5, 1)),
        (torch.addmm, numbers(1, 1), a, numbers(5, 3)),
    ):
        assert same(device, function, *given)["products"] == 1, given
    assert same(device, torch.addmm, numbers(6, 1), a, numbers(5, 3))["biases"] == 1
    assert same(device, torch.addmm, numbers(3), a, numbers(5, 3))["biases"] == 1


def test_what_beta_0_takes_away_is_not_read(device: torch.device) -> None:
    def product(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        functional = torch.addmm(out, a, b, beta=0)
        return [functional, out.addmm_(a, b, beta=0)]

    nan = torch.full((4, 3), torch.nan)
    assert same(device, product, nan, numbers(4, 5), numbers(5, 3))["products"] == 2


def test_output_that_overlaps_an_operand_is_not_for_a_library(device: torch.device) -> None:
    both = numbers(4, 4).to(device)
    with calls() as made, fallback.policy(copied="allow"):
        torch.addmm(both[:, :3], both, both[:, 1:4].t()[:3].t(), out=both[:, :3])
    assert made["products"] == 0


def test_conjugated(device: torch.device) -> None:
    a, b = numbers(4, 5, dtype=torch.complex64), numbers(5, 3, dtype=torch.complex64)
    assert same(device, torch.mm, a.conj(), b)["products"] == 1
    assert same(device, torch.mm, a, b.mH.conj().mT)["products"] == 1
    parts = [numbers(3, 4, dtype=torch.complex64), numbers(4, 3, dtype=torch.complex64)]
    same(device, lambda x, y: torch.mm(x.conj().imag, y.imag), *parts)
    x = numbers(5, dtype=torch.complex64)
    assert same(device, lambda x: torch.dot(x.conj(), x), x)["products"] == 0


def test_what_is_not_for_a_library(device: torch.device) -> None:
    for sizes in (((0, 5), (5, 3)), ((4, 0), (0, 3)), ((4, 5), (5, 0))):
        made = same(device, torch.mm, *(numbers(*each) for each in sizes))
        assert made["queries"] == 0
    made = same(device, torch.mm, *(numbers(*s).half() for s in ((4, 5), (5, 3))))
    assert made["products"] == 0
    with pytest.raises(RuntimeError), calls() as made:
        torch.mm(torch.ones(2, 2, device=device), torch.ones(2, 2, device=device).double())
    assert made["queries"] == 0


def test_activation(device: torch.device) -> None:
    for gelu in (True, False):
        activated = partial(torch._addmm_activation, use_gelu=gelu)
        made = same(device, activated, numbers(3), numbers(4, 5), numbers(5, 3))
        assert (made["products"], made["activations"], made["biases"]) == (1, 1, 1)


def test_forms_of_what_is_added(device: torch.device) -> None:
    given = (numbers(3), numbers(4, 5), numbers(5, 3))
    made = same(device, torch.addmm, *given, mode=Mode.NO_BIAS)
    assert (made["products"], made["biases"], made["in_place"]) == (1, 0, 0)
    made = same(device, torch.addmm, *given, mode=Mode.ONLY_IN_PLACE)
    assert (made["products"], made["biases"], made["in_place"]) == (1, 0, 1)


@pytest.mark.parametrize("mode", [Mode.DECLINES, Mode.DECLINES_LATE])
def test_declined(device: torch.device, mode: Mode) -> None:
    given = (numbers(4, 3), numbers(4, 5), numbers(5, 3))
    for function in (torch.addmm, torch.Tensor.addmm_):
        made = same(device, function, *given, mode=mode)
        assert made["products"] == 0
        assert made["queries"] > 0


def test_failure_is_raised(device: torch.device) -> None:
    a = numbers(4, 4).to(device)
    with calls(Mode.FAILS), pytest.raises(RuntimeError, match=r"matrix_product.*out of order"):
        torch.mm(a, a)
    assert same(device, torch.mm, numbers(4, 4), numbers(4, 4))["products"] == 1


def test_settings_reach_the_library(device: torch.device) -> None:
    a = numbers(4, 4).to(device)
    torch.use_deterministic_algorithms(True)
    try:
        with calls() as deterministic:
            torch.mm(a, a)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("high")
        with calls() as reduced:
            torch.mm(a, a)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
    assert (deterministic["deterministic"], deterministic["reduced"]) == (1, 0)
    assert (reduced["deterministic"], reduced["reduced"]) == (0, 1)


def test_work_is_counted(device: torch.device) -> None:
    """A wait for the stream waits for the library."""
    a = numbers(64, 64).to(device)
    event = torch.Event(device)
    result = a
    for _ in range(50):
        result = torch.mm(result, a) / 8
    event.record()
    event.synchronize()
    expected = a.cpu()
    for _ in range(50):
        expected = torch.mm(expected, a.cpu()) / 8
    assert_close(result.cpu(), expected, rtol=1e-3, atol=1e-3)


def test_before_the_kit_and_after_users(device: torch.device) -> None:
    """The placement does not concern a library; a kernel for the operator comes first."""
    a, b = numbers(4, 4), numbers(4, 4)
    for name in ("host", "auto", "device"):
        with placement.use(name, device):
            assert same(device, torch.mm, a, b)["products"] == 1

    @torch_outboard.kernel("aten::mm", dtypes=[torch.float32])
    def mm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 42)

    with mm, calls() as made, fallback.policy(copied="allow"):
        assert torch.mm(a.to(device), b.to(device)).tolist() == [[42.0] * 4] * 4
    assert made["products"] == 0


def test_graph(device: torch.device, shares_memory: bool) -> None:
    if not shares_memory:
        pytest.skip("there the library waits, and cannot be captured")
    x, result = torch.ones(4, 4, device=device), torch.zeros(4, 4, device=device)
    with torch.Stream(device):
        torch.accelerator.synchronize()
        graph = torch.accelerator.Graph()
        try:
            with graph:
                torch.mm(x, x, out=result)
        except NotImplementedError:
            pytest.skip("the driver has no graphs")
        assert_close(result.cpu(), torch.zeros(4, 4))
        for value in (2.0, 3.0):
            x.fill_(value)
            graph.replay()
            assert_close(result.cpu(), torch.full((4, 4), 4 * value**2))
