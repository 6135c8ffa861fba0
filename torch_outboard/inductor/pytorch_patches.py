"""What Inductor has to be told that it has no registry for; each entry with its reason and its end.

Installed when the compiler is imported. Every entry has a test that fails when PyTorch no longer
needs it (tests/inductor/test_pytorch_patches.py).
"""

from __future__ import annotations

import functools




from torch_outboard.state import state


def be_a_gpu() -> None:
    """Makes Inductor treat the device as an accelerator.

    Reason: lists of accelerators are fixed names. Without it, an operation of a CPU scalar and a
    tensor of the device becomes a CPU kernel, and indices of devices get lost.
    Where: torch/_inductor/utils.py, `GPU_TYPES`.
    Upstream: RFC 189137.
    Can go: from 2.15 on, where `DeviceInterface.is_gpu` says it.
    """
    from torch._inductor import utils

    if state.name not in utils.GPU_TYPES:
        utils.GPU_TYPES.append(state.name)
        utils.get_gpu_type.cache_clear()


def need_no_triton() -> None:
    """Lets graphs of the device through without Triton.

    Reason: whoever is an accelerator and not "mps" is refused with TritonMissing.
    Where: torch/_inductor/scheduler.py, `Scheduler.create_backend`.
    Upstream: RFC 189137.
    Can go: when the backend is asked what it needs.
    """
    from torch._inductor import scheduler

    original = scheduler.has_triton
    if getattr(original, "outboard", False):
        return

    @functools.wraps(original)
    def has_triton() -> bool:
        from torch._inductor.virtualized import V

        device = V.graph.device_type if isinstance(V.graph.device_type, str) else ""
        return original() or device == state.name or state.name in V.graph.device_types

    has_triton.outboard = True  # type: ignore[attr-defined]
    scheduler.has_triton = has_triton


def install() -> None:
    """All of them."""
    be_a_gpu()
    need_no_triton()


