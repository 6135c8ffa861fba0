"""Kernels of several bodies: of torch._foreach_ operators, and of independent nodes."""

import re

import pytest
import torch
from torch._inductor import config, metrics

from tests.inductor.support import check, check_sizes, checked_code, kernels_of, launches, moved

SIZES = ((4, 5), (), (3000, 7), (0, 3), (1,), (64, 3, 3, 3), (17,), (2, 0))


def tensors(*dtypes: torch.dtype) -> list[torch.Tensor]:
    return [(torch.randn(size) * 9).to(dtype) for dtype in dtypes for size in SIZES]


def update(x: list[torch.Tensor], y: list[torch.Tensor]) -> list[torch.Tensor]:
    return torch._foreach_add(torch._foreach_mul(x, 3), y, alpha=2)


def test_dtypes_of_one_list(device: torch.device):
    x = tensors(torch.float32, torch.int64, torch.float16, torch.uint8)
    assert launches(checked_code(update, x, x, device=device, tolerance=1e-2)) == 1


@pytest.mark.parametrize("room", ["enough", "little"])
def test_lists_become_few_launches_and_sources(
    room: str, device: torch.device, request: pytest.FixtureRequest
):
    """Large tensors share a source, whatever their sizes; those of one element have another.

    What Inductor counts as generated kernels is what is launched, and not the pieces.
    """
    if room == "little":
        request.getfixturevalue("little_room")
    metrics.reset()
    code = checked_code(update, tensors(torch.float32), tensors(torch.float32), device=device)
    # Six tensors with elements, of three pointers each.
    assert metrics.generated_kernel_count == launches(code) == (1 if room == "enough" else 3)
    if room == "little":
        assert max(head.count("OB_POINTER") for head in code.split("__kernel")) <= 9
    else:
        assert code.count("switch (piece") <= 2
        assert len(re.findall(r"ob_store_float\w*\(", code)) <= 5


@pytest.mark.slow
def test_more_tensors_than_a_kernel_takes(device: torch.device):
    """Without a limit, fusing makes one kernel of all."""

    def function(x: list[torch.Tensor]) -> torch.Tensor:
        total = x[0]
        for part in x[1:]:
            total = total * 0.5 + part
        return total

    check(function, list(torch.randn(300, 40)), device=device)


def test_tensors_that_change_by_numbers_of_the_host(device: torch.device):
    def function(x: list[torch.Tensor], steps: list[torch.Tensor]) -> list[torch.Tensor]:
        torch._foreach_mul_(x, 0.5)
        torch._foreach_add_(x, steps)
        return torch._foreach_addcdiv(x, x, torch._foreach_exp(x), value=0.5)

    x = tensors(torch.float32)
    steps = [torch.tensor(i + 1.0) for i in range(len(x))]
    ours = moved(x, device)
    actual = torch.compile(function)(ours, steps)
    torch.testing.assert_close(moved((actual, ours), "cpu"), (function(x, steps), x))


def test_sizes_may_change(device: torch.device):
    def function(x: list[torch.Tensor]) -> list[torch.Tensor]:
        return torch._foreach_add(torch._foreach_mul(x, 3), 1)

    calls = []
    for sizes in ((5, 3000), (3000, 7), (1200, 20)):
        calls.append(([*(torch.randn(size) for size in sizes), torch.randn(sizes)[:, ::2]],))
    check_sizes(function, *calls, device=device)


def independent(
    x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, i: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    return x.sin() + 1, y.sum(1), y.t().contiguous() * 2, z[i] + 1, z.softmax(-1), z.argmax(0)


def test_independent_nodes(device: torch.device):
    i = torch.randint(0, 70, (50,))
    given = (torch.randn(1000), torch.randn(33, 700), torch.randn(70, 100), i)
    with config.patch(combo_kernels=True):
        code = checked_code(independent, *given, device=device)
        # Of six. A GPU has another for work-groups, and 2.15 leaves one out.
        assert launches(code) <= (3 if torch.__version__ < (2, 15) else 4)
        # A wrong index in one of them.
        i[7] = 99
        with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
            torch.compile(independent)(*moved(given, device))[0].cpu()
    assert torch.compile(lambda x: x + 1)(torch.zeros(3, device=device)).tolist() == [1, 1, 1]


@pytest.mark.slow
def test_an_optimizer_of_many_parameters(device: torch.device):
    """The room for parameters sets the launches; tensors do not add sources."""
    parameters = [
        torch.nn.Parameter(torch.randn(size, device=device))
        for size in ((300, 20), (20,), (), (7, 3)) * 10
    ]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    code = kernels_of(torch.optim.AdamW(parameters, lr=0.01).step)
    assert launches(code) <= 8
    assert len(re.findall(r"(?m)^\s+for \(; end", code)) <= 20
