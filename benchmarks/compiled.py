"""Times of compiled functions on a device against Inductor's own code for CPU.

    python -m benchmarks.compiled [--rounds 21] [names...]

Each function is measured twice: compiled on both devices, and eager on the device against compiled
on CPU. The quotient of the two ratios is what compiling is worth on the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.command import run_as_command
from benchmarks.paired import Work

Function = Callable[..., torch.Tensor]


def _cases() -> dict[str, tuple[Function, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    r = torch.randn
    return {
        "chain and sum": (lambda x, y, z: (x * y + z).relu().sum(), tuple(r(3, 10**7))),
        "layer norm": (
            lambda x, w, b: F.layer_norm(x, (768,), w, b), (r(2048, 768), r(768), r(768)),
        ),
        "RMS norm": (
            lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w,
            (r(2048, 768), r(768)),
        ),
        "softmax and mask": (
            lambda x, m: (x * 0.125 + m).softmax(-1), (r(16, 256, 256), r(256, 256)),
        ),
        "GELU and bias": (lambda x, b: F.gelu(x + b), (r(1024, 3072), r(3072))),
        "rotary embedding": (
            lambda q, c, s: q * c + torch.cat((-q[..., 32:], q[..., :32]), -1) * s,
            (r(4, 8, 256, 64), r(256, 64), r(256, 64)),
        ),
        "cross entropy": (F.cross_entropy, (r(512, 5000), torch.randint(0, 5000, (512,)))),
        "group norm and SiLU": (
            lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), (r(4, 64, 32, 32), r(64), r(64)),
        ),
        "argmax": (lambda x: x.argmax(-1), (r(1024, 2000),)),
        "sum of columns": (lambda x: x.sum(0), (r(4000, 1000),)),
    }  # fmt: skip


def _work(name: str, compiled: bool) -> Work:
    def make(device: str) -> Callable[[], object]:
        function, arguments = _cases()[name]
        given = tuple(argument.to(device) for argument in arguments)
        if compiled or device == "cpu":
            function = torch.compile(function)
        function(*given)
        return lambda: function(*given)

    return make


WORKS: dict[str, Work] = {
    f"{name}, {how}": _work(name, how == "compiled")
    for name in _cases()
    for how in ("compiled", "eager")
}

if __name__ == "__main__":
    run_as_command(__doc__ or "", "benchmarks.compiled", WORKS)
