"""Parts of long reductions: how many, and that sums of any length are right."""

import pytest
import torch

from tests.inductor.support import check_sizes, checked_code
from torch_outboard.inductor.kernel.loops import parts_of_reduction
from torch_outboard.inductor.target import target_of


def test_parts_begin_at_lines_of_the_cache_and_are_of_one_length_where_they_can_be():
    for elements in (10**7, 10**7 + 1, 2**20, 4_915_200, 123_456_789):
        parts = parts_of_reduction(elements, 1, 2)
        assert -(-elements // parts) % 16 == 0, elements
        assert elements // parts <= 1 << 17
    for elements in (10**7, 3 * 10**6, 2**24):
        assert elements % parts_of_reduction(elements, 1, 2) == 0, elements


@pytest.mark.parametrize("processors", [1, 2, 64])
def test_every_processor_has_parts(processors: int):
    assert parts_of_reduction(10**7, 1, processors) >= 4 * processors
    for elements in (1, 8192, 8193, 20_000, 1_000_003, 10**7):
        for results in (1, 2, 3, 200):
            parts = parts_of_reduction(elements, results, processors)
            assert 1 <= parts <= max(1, elements // (1 << 13))
            assert results < 2 * processors or parts == 1


@pytest.mark.parametrize("elements", [8193, 1_000_000, 1_000_003])
def test_sums(elements: int, device: torch.device):
    """Whole parts, which have no conditions, and a last one that is shorter."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 2 + 1).relu().sum(), x.amax(), x.var()

    code = checked_code(function, torch.randn(elements), device=device)
    if target_of(device).group == 1:  # a GPU has parts by Inductor's numbers
        assert ("masked_load" in code) == (elements == 1_000_003)


def test_dynamic_shapes(device: torch.device):
    sizes = (50_000, 1_000_000, 999_999, 20)
    calls = [(torch.rand(elements),) for elements in sizes]
    check_sizes(lambda x: (x * 2).sum(), *calls, device=device, tolerance=2e-6)
