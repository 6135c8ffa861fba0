"""Convolutions in compiled functions: the kernel adds their bias."""

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

from tests.inductor.support import check, skip_without_kernels

MODE = "max-autotune-no-cudagraphs"


@pytest.mark.parametrize("mode", [None, MODE])
def test_a_bias_is_given_to_the_kernel(mode: str | None, device: torch.device):
    """Nothing is left to a kernel of its own where sums over a result follow."""

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.group_norm(F.conv2d(x, weight, bias, padding=1), 2)

    skip_without_kernels()
    given = (torch.randn(2, 3, 9, 11), torch.randn(4, 3, 3, 3), torch.randn(4))
    compiled = torch.compile(function, mode=mode)
    actual, codes = run_and_get_code(compiled, *(x.to(device) for x in given))
    assert "bias=None" not in codes[0]
    torch.testing.assert_close(actual.cpu(), function(*given), rtol=1e-4, atol=1e-4)


def test_max_autotune(device: torch.device):
    """Products and convolutions without templates."""

    def function(
        x: torch.Tensor, w: torch.Tensor, image: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        layer = F.gelu(F.linear(x, w, w[0])) + x
        return layer, (x @ x).relu(), torch.conv2d(image, weight).relu()

    given = [torch.randn(*sizes) for sizes in ((40, 40), (40, 40), (2, 5, 9, 9), (7, 5, 3, 3))]
    check(function, *given, device=device, tolerance=1e-4, mode=MODE)
