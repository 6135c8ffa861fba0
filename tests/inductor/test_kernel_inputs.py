"""Which inputs of code for the CPU are nothing but addresses to it."""

from __future__ import annotations

import pytest
import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.utils import run_and_get_code
from torch.testing import assert_close

from torch_outboard import _C
from torch_outboard.inductor.host_code import kernel_inputs

CODE = """
cpp_fused_0 = async_compile.cpp_pybinding(['float*'], r'''void kernel(float* a) {}''')
other = torch.ops.aten.mul.Tensor

class Runner:
    def call(self, args):
        a, b, c, d, e = args
        args.clear()
        assert_size_stride(a, (3, ), (1, ), 'input')
        assert_size_stride(b, (3, ), (1, ), 'input')
        buf0 = empty_strided_cpu((3, ), (1, ), torch.float32)
        cpp_fused_0(a, b, d, buf0)
        other(b, buf0)
        buf1 = d; del d  # reuse
        cpp_fused_0(reinterpret_tensor(c, (3, ), (1, ), 0), buf1)
        del a
        return (buf0, e, )
"""


GROUPED = CODE.replace(
    "assert_size_stride(a, (3, ), (1, ), 'input')",
    "assert_size_stride_grouped((a, b), ((3, ), (3, )), ((1, ), (1, )), 'input')",
)


@pytest.mark.parametrize(
    ("code", "places"),
    [
        (CODE, [0]),
        (GROUPED, [0]),
        ("int main() { return 0; }", []),
        (CODE.replace("cpp_pybinding", "unknown"), []),
        (CODE.replace("a, b, c, d, e = args", "a = args"), []),
        (CODE + CODE.replace("cpp_fused_0(a", "other(a"), []),
    ],
)
def test_only_kernels_and_checks_get_them(code: str, places: list[int]) -> None:
    assert kernel_inputs(code) == places


@pytest.mark.by_turns(4)
def test_inductors_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A formula's inputs go to kernels alone; those of a product of matrices do not."""
    # Nothing is compiled: the code is for reading.
    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", lambda *_: lambda *_: None)

    def function(*values: torch.Tensor) -> torch.Tensor:
        x, y, z, w = values
        x.mul_(y).add_(z.sin())
        return w @ y

    with config.patch({"cpp.vec_isa_ok": True}):
        _, (code,) = run_and_get_code(torch.compile(function), *torch.rand(4, 5, 5).unbind())
    assert kernel_inputs(code) == [0, 2]


def test_they_stay_the_devices(device: torch.device, shares_memory: bool) -> None:
    """Unless another input has the same memory, so that both need one storage of the CPU."""
    calls = _C.HostGraphCalls(device.index or 0, [0], [], [0])
    x = torch.zeros(3, device=device)
    seen: list[str] = []

    def compiled(arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        seen.append(arguments[0].device.type)
        return []

    for _ in range(2):
        calls(compiled, [x])
    calls(compiled, [x, x.view(3)])
    calls(compiled, [x])
    own = device.type if shares_memory else "cpu"
    assert seen == [own, own, "cpu", own]
    assert_close(x.cpu(), torch.zeros(3))
