"""Products with weights of four bits: on accelerators under names that CPU has not."""

import pytest
import torch

GROUP = 32


def packed_by_cpu(weights: torch.Tensor) -> torch.Tensor:
    return torch._convert_weight_to_int4pack_for_cpu(weights, 2)


def bytes_of(weights: torch.Tensor) -> torch.Tensor:
    """Pairs of weights, the first in the upper half."""
    return (weights[:, ::2] << 4 | weights[:, 1::2]).to(torch.uint8)


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    n, k = 48, 64
    x = torch.randn(5, k).to(dtype)
    weights = torch.randint(0, 16, (n, k), dtype=torch.int32)
    scale_and_zero = torch.rand(k // GROUP, n, 2).to(dtype)
    return x, weights, scale_and_zero


@pytest.mark.separate
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_products(device, dtype):
    x, weights, scale_and_zero = operands(dtype)
    expected = torch._weight_int4pack_mm_for_cpu(x, packed_by_cpu(weights), GROUP, scale_and_zero)
    packed = torch._convert_weight_to_int4pack(bytes_of(weights).to(device), 2)
    assert packed.shape == (6, 2, 32, 1)
    assert packed.dtype == torch.int32
    result = torch._weight_int4pack_mm(x.to(device), packed, GROUP, scale_and_zero.to(device))
    assert result.dtype == dtype
    largest = expected.abs().max().item()
    torch.testing.assert_close(
        result.cpu(), expected, rtol=0, atol=largest * 4 * torch.finfo(dtype).eps
    )


def test_compiled(device):
    x, weights, scale_and_zero = (value.to(device) for value in operands(torch.float32))

    def run(x, bytes_, scale_and_zero):
        packed = torch.ops.aten._convert_weight_to_int4pack(bytes_, 2)
        return torch.ops.aten._weight_int4pack_mm(x + 1, packed, GROUP, scale_and_zero) * 2

    given = x, bytes_of(weights), scale_and_zero
    torch.testing.assert_close(torch.compile(run, fullgraph=True)(*given), run(*given))


def test_errors(device):
    x, weights, scale_and_zero = (value.to(device) for value in operands(torch.float32))
    packed = torch._convert_weight_to_int4pack(bytes_of(weights), 2)
    for given, tiles in (weights, 2), (bytes_of(weights), 3), (bytes_of(weights)[:3], 2):
        with pytest.raises(RuntimeError, match="_convert_weight_to_int4pack"):
            torch._convert_weight_to_int4pack(given, tiles)
    for arguments in (
        (x[0], packed, GROUP, scale_and_zero),
        (x, bytes_of(weights), GROUP, scale_and_zero),
        (x[:, :32], packed, GROUP, scale_and_zero),
        (x, packed, 16, scale_and_zero),
        (x, packed, 0, scale_and_zero),
    ):
        with pytest.raises(RuntimeError, match="_weight_int4pack_mm"):
            torch._weight_int4pack_mm(*arguments)
