"""Which attention scaled_dot_product_attention takes: the one that it takes on CPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.separate

BACKENDS = [
    (SDPBackend.MATH,),
    (SDPBackend.FLASH_ATTENTION,),
    (SDPBackend.EFFICIENT_ATTENTION,),
    (SDPBackend.OVERRIDEABLE,),
    (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH),
    (SDPBackend.FLASH_ATTENTION, SDPBackend.OVERRIDEABLE),
]


class Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "attention" in function.name():
            self.seen.add(function.name())
        return function(*args, **(kwargs or {}))


def choice(device: torch.device | str, backends, **options) -> set[str] | str:
    query, key, value = (torch.ones(2, 2, 4, 8, device=device) for _ in range(3))
    with sdpa_kernel(list(backends)), Watch() as watch:
        try:
            scaled_dot_product_attention(query, key, value, **options)
        except RuntimeError as error:
            return str(error).splitlines()[0]
    return watch.seen


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.5}], ids=str)
@pytest.mark.parametrize(
    "backends", BACKENDS, ids=lambda backends: "+".join(b.name for b in backends)
)
def test_choice(device, backends, options):
    assert choice(device, backends, **options) == choice("cpu", backends, **options)


def test_the_operator_that_tells_the_choice(device):
    tensors = [torch.ones(2, 2, 4, 8) for _ in range(3)]
    expected = torch._fused_sdp_choice(*tensors)
    assert torch._fused_sdp_choice(*(t.to(device) for t in tensors)) == expected
