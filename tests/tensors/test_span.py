"""The memory between the first and the last element of a tensor, against all offsets."""

from itertools import product

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from torch_outboard import _C

DIMENSIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4)


def offsets(sizes: list[int], strides: list[int]) -> set[int]:
    """Where each element lies, by definition."""
    indices = product(*(range(size) for size in sizes))
    return {sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in indices}


@given(DIMENSIONS)
@example([])  # no dimensions: one element
@example([(0, 1)])
@example([(3, 0), (4, 1)])  # expanded
@example([(8, 1), (5, 1)])  # windows that overlap
@example([(4, 2), (4, 0), (1, 9)])
def test_span_ends_behind_the_last_element(dimensions: list[tuple[int, int]]) -> None:
    sizes, strides = [size for size, _ in dimensions], [stride for _, stride in dimensions]
    assert _C.testing.span_elements(sizes, strides) == max(offsets(sizes, strides), default=-1) + 1


def test_the_ends_of_64_bits() -> None:
    """Nothing has no span, whatever its strides; what 64 bits do not hold raises."""
    for sizes in ((0, 3), (3, 0), (3, 0, 3)):
        assert _C.testing.span_elements(sizes, (2**60,) * len(sizes)) == 0
    for sizes, strides in (
        ((3,), (2**63 - 1,)), ((2**32 + 1,), (2**33,)), ((2, 2, 2, 2), (2**62,) * 4),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="overflow"):
            _C.testing.span_elements(sizes, strides)


@pytest.mark.separate
def test_host_kernels_touch_the_span_alone(device: torch.device) -> None:
    """Of views that end with their storage, and of views of nothing."""
    base = torch.arange(24.0)
    moved = base.to(device)
    for sizes, strides, offset in (
        ((3, 4), (7, 1), 6), ((2, 4), (0, 1), 20), ((5, 3), (1, 1), 17), ((0, 4), (9, 9), 24),
    ):  # fmt: skip
        ours, theirs = (each.as_strided(sizes, strides, offset) for each in (moved, base))
        assert torch.equal(ours.cpu(), theirs)
        assert torch.equal(torch.cummax(ours, 0)[0].cpu(), torch.cummax(theirs, 0)[0])
