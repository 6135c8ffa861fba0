"""Which inputs of code for the CPU are nothing but addresses to it."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.testing import assert_close

from tests.support import run_python
from torch_outboard import _C
from torch_outboard.inductor.kernel_inputs import kernel_inputs

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


@pytest.mark.parametrize("code", [CODE, GROUPED])
def test_only_kernels_and_checks_get_them(code: str) -> None:
    assert kernel_inputs(code) == [0]


@pytest.mark.parametrize(
    "code",
    [
        "",
        "int main() { return 0; }",
        CODE.replace("cpp_pybinding", "unknown"),
        CODE.replace("a, b, c, d, e = args", "a = args"),
        CODE + CODE.replace("cpp_fused_0(a", "other(a"),
    ],
)
def test_none_in_what_is_not_known(code: str) -> None:
    assert kernel_inputs(code) == []


@pytest.mark.by_turns(4)
def test_inductors_own_code() -> None:
    """An optimizer's step gives its inputs to kernels alone; a product of matrices does not."""
    values = [torch.rand(5, 5) for _ in range(3)]

    def update(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> None:
        x.mul_(y).add_(z.sin())

    _, (code,) = run_and_get_code(torch.compile(update), *values)
    assert kernel_inputs(code) == [0, 1, 2]
    _, (code,) = run_and_get_code(torch.compile(lambda x, y, z: (x.sin() @ y) + z), *values)
    assert kernel_inputs(code) == [0, 2] or kernel_inputs(code) == [0]  # an epilogue, or addmm


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


@pytest.mark.slow
def test_a_step_of_an_optimizer() -> None:
    """All its inputs are such; values and states are those of the CPU."""
    code = """
import torch, torch_outboard
from torch import nn
name = torch_outboard.device_name()
def steps(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    update = torch.compile(optimizer.step)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.ones(3, 6, device=device)).square().sum().backward()
        update()
    states = [value for state in optimizer.state.values() for value in state.values()]
    return [value.detach().cpu() for value in (*model.parameters(), *states)]
torch.testing.assert_close(steps(name), steps("cpu"))
print("right")
"""
    assert run_python(code, OUTBOARD_WAY="host", timeout=280).split() == ["right"]
