"""Along which loop the vectors of a reduction go."""

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.support import checked_code
from torch_outboard.inductor.target import target_of

pytestmark = pytest.mark.by_turns(4)


def heads(x: torch.Tensor) -> torch.Tensor:
    """(batch x heads, length, size) to (length x batch, heads x size): heads side by side."""
    return (x * 2).permute(1, 0, 2).reshape(64, 8, 128).reshape(512, 128)


def test_sums_over_rows_that_are_read_in_pieces(device: torch.device):
    """A quotient in an index is the same for all lanes, so they are neighbours in memory."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return heads(x).sum(0)

    code = checked_code(function, torch.randn(16, 64, 64), device=device, tolerance=1e-3)
    assert "ob_load_float" in code
    assert "ob_gather_float" not in code


@pytest.mark.parametrize("columns", [512, 96])
def test_sums_over_rows_take_several_vectors_at_once(columns: int, device: torch.device):
    """As many as a unit of work has, also where columns are few."""
    if target_of(device).group > 1:
        pytest.skip("an item of a GPU has one value")

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sum(0)

    code = checked_code(function, torch.randn(300, columns), device=device, tolerance=1e-3)
    assert "_copy1" in code


DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_second_element(dtype: torch.dtype, device: torch.device):
    """Also where the last one is the last of the memory."""

    def function(*lines: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for x in lines:
            odd = x[:, 1::2].logical_not()
            results += [x[:, ::2].clone(), odd, F.pad(odd, (3, 2), value=1)]
        return results

    lines = [(torch.randn(3, size) * 2).to(dtype) for size in (31, 33, 257)]
    code = checked_code(function, *lines, device=device)
    if target_of(device).lanes > 1:
        assert "ob_stride2_load" in code
        assert "ob_gather" not in code


@pytest.mark.parametrize(("times", "dtype"), [*zip([2, 3, 4, 8, 16, 2], DTYPES, strict=True)])
def test_elements_for_several_lanes(times: int, dtype: torch.dtype, device: torch.device):
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        longer = x[:, :, None].expand(3, 64, times).reshape(3, 64 * times).logical_not()
        part = x[:, :32, None].expand(3, 32, times).reshape(3, 32 * times).repeat(1, 2)
        return longer[:, : 37 * times], part, F.pad(longer, (3, 2), value=1)

    code = checked_code(function, (torch.randn(3, 64) * 2).to(dtype), device=device)
    if target_of(device).lanes > times and times % 2 == 0:
        assert f"ob_repeat{times}_load" in code
        assert "ob_gather" not in code
