"""Tells PyTorch's compiler of the device, when the compiler is imported and not before.

Importing it takes as long as importing PyTorch itself. So registration waits for the modules that
have to know of the device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import torch

from torch_outboard.after_import import after_import
from torch_outboard.state import state


def register_when_imported() -> None:
    """Registers the device with the modules of the compiler as soon as they are imported."""
    after_import("torch._dynamo.device_interface", _register_interface)
    after_import("torch._dynamo.trace_rules", _leave_package_alone)
    after_import("torch._dynamo.backends.registry", _register_name)
    after_import("torch._dynamo.variables.optimizer", _count_steps_on_the_device)
    after_import("torch._inductor.compile_fx", _register_backend)
    after_import("torch.nn.attention.flex_attention", _take_flex_attention)


def _register_interface(_: ModuleType) -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_outboard.inductor.device_interface import OutboardInterface

    register_interface_for_device(state.name, OutboardInterface)


def _leave_package_alone(_: ModuleType) -> None:
    """Operators of a compiled function that run by themselves may enter the package's Python."""
    from torch._dynamo import trace_rules

    trace_rules.add("torch_outboard")


def _register_name(_: ModuleType) -> None:
    """Makes `torch.compile(backend=<name>)` another way to ask for Inductor."""
    from torch._dynamo.backends import registry

    registry.register_backend(_compile, name=state.name)


def _compile(
    graph: torch.fx.GraphModule,
    inputs: list[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    settings = {**(list_mode_options(mode) if mode else {}), **(options or {})}
    return cast(Callable[..., Any], compile_fx(graph, inputs, config_patches=settings or None))


def _register_backend(_: ModuleType) -> None:
    try:
        from torch._inductor.codegen import common

        from torch_outboard.inductor import cache_folder, pytorch_patches
        from torch_outboard.inductor.lowerings import flex_kernels
        from torch_outboard.inductor.passes import random_numbers
        from torch_outboard.inductor.scheduling import OpenCLScheduling
        from torch_outboard.inductor.wrapper import OutboardOperations, OutboardWrapper
    except (ImportError, AttributeError) as problem:
        # The rest of the compiler must go on being importable.
        warnings.warn(
            f"torch.compile has no backend for '{state.name}' in this PyTorch, which has changed "
            f"what the backend builds on ({problem}); use PyTorch 2.13, or "
            'torch.compile(..., backend="aot_eager")',
            stacklevel=2,
        )
        return
    cache_folder.avoid_folder_of_others()
    common.register_backend_for_device(state.name, OpenCLScheduling, OutboardWrapper)
    common.register_device_op_overrides(state.name, OutboardOperations())
    random_numbers.define()
    flex_kernels.define()
    pytorch_patches.install()


def _count_steps_on_the_device(_: ModuleType) -> None:
    from torch_outboard.inductor import pytorch_patches

    pytorch_patches.count_steps_on_the_device()


def _take_flex_attention(_: ModuleType) -> None:
    from torch_outboard.inductor import pytorch_patches
    from torch_outboard.inductor.lowerings import flex_autocast

    pytorch_patches.take_flex_attention()
    flex_autocast.register()
