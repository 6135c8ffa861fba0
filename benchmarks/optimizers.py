"""Steps of optimizers, gradient clipping and gradient scaling: launches, and time against CPU.

    OUTBOARD_PLACEMENT=device python -m benchmarks.optimizers --launches
    OUTBOARD_PLACEMENT=device python -m benchmarks.optimizers --device ocl [--rounds 11] [names...]

The parameters are those of the small GPT of benchmarks/training_steps.py.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.paired import Work, compare
from benchmarks.training_steps import Gpt

Step = Callable[[], object]


def parameters(device: str) -> list[torch.nn.Parameter]:
    """Parameters with gradients."""
    torch.manual_seed(0)
    result = list(Gpt().to(device).parameters())
    for parameter in result:
        parameter.grad = torch.randn(parameter.shape).to(device) * 1e-3
    return result


def optimizer(make: type[torch.optim.Optimizer], device: str, **settings: Any) -> Step:
    return make(parameters(device), lr=1e-4, **settings).step  # type: ignore[call-arg]


def clip(device: str) -> Step:
    return partial(torch.nn.utils.clip_grad_norm_, parameters(device), 1.0)


def zero(device: str) -> Step:
    return partial(torch.optim.SGD(parameters(device), foreach=True).zero_grad, set_to_none=False)


def unscale(device: str) -> Step:
    gradients = [p.grad for p in parameters(device)]
    found, scale = torch.zeros(1, device=device), torch.ones(1, device=device)
    function = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_
    return lambda: function(gradients, found, scale)


def scaled(device: str) -> Step:
    """A fused optimizer as torch.amp.GradScaler calls it."""
    fused = torch.optim.AdamW(parameters(device), lr=1e-4, fused=True)
    fused.grad_scale = torch.ones((), device=device)  # type: ignore[attr-defined]
    fused.found_inf = torch.zeros((), device=device)  # type: ignore[attr-defined]
    return fused.step


WORKS: dict[str, Work] = {
    "AdamW, foreach": partial(optimizer, torch.optim.AdamW, foreach=True),
    "AdamW, fused": partial(optimizer, torch.optim.AdamW, fused=True),
    "AdamW, fused and scaled": scaled,
    "Adam, foreach": partial(optimizer, torch.optim.Adam, foreach=True),
    "SGD with momentum, foreach": partial(optimizer, torch.optim.SGD, momentum=0.9, foreach=True),
    "SGD with momentum, fused": partial(optimizer, torch.optim.SGD, momentum=0.9, fused=True),
    "clip_grad_norm_": clip,
    "zero_grad(set_to_none=False)": zero,
    "unscaling by GradScaler": unscale,
}


def launches(step: Step, device: str) -> Counter[str]:
    """Kernels that a step launches, by name."""
    synchronize = torch.get_device_module(device).synchronize
    step()  # makes state and compiles programs
    synchronize()
    activities = [torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        step()
        synchronize()
    kernels = torch.autograd.DeviceType.PrivateUse1
    return Counter(e.name for e in profile.events() if e.device_type == kernels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *WORKS], help="all by default")
    parser.add_argument("--device", default="ocl")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--launches", action="store_true", help="count instead of measuring")
    options = parser.parse_args()
    names = options.names or list(WORKS)
    if not options.launches:
        compare(names, device=options.device, rounds=options.rounds, module="benchmarks.optimizers")
        return
    for name in names:
        counts = launches(WORKS[name](options.device), options.device)
        print(f"{name:32} {counts.total():5}  {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
