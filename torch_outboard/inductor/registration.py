"""Tells PyTorch's compiler of the device, when the compiler is imported and not before.

Importing it takes as long as importing PyTorch itself. So an import hook waits for the modules that
have to know of the device, and registers when they are there.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from torch_outboard.state import state


def register_when_imported() -> None:
    """Registers the device with the modules of the compiler as soon as they are imported."""
    waiting: dict[str, Callable[[], None]] = {
        "torch._dynamo.device_interface": _register_interface,
        "torch._dynamo.trace_rules": _leave_package_alone,
        "torch._dynamo.backends.registry": _register_name,
        "torch._dynamo.variables.optimizer": _count_steps_on_the_device,
        "torch._inductor.compile_fx": _register_backend,
        "torch.nn.attention.flex_attention": _take_flex_attention,
    }
    for name in list(waiting):
        if name in sys.modules:
            waiting.pop(name)()
    if waiting:
        sys.meta_path.insert(0, _AfterImport(waiting))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing by itself; runs functions after modules of some names were imported."""

    def __init__(self, waiting: dict[str, Callable[[], None]]) -> None:
        self.waiting = waiting

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        action = self.waiting.pop(fullname, None)
        if action is None:
            return None
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, action)
        return spec


class _Loader(importlib.abc.Loader):
    """Another loader, and a function to call at its end."""

    def __init__(self, loader: importlib.abc.Loader, action: Callable[[], None]) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.action()


def _register_interface() -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_outboard.inductor.device_interface import OutboardInterface

    register_interface_for_device(state.name, OutboardInterface)


def _leave_package_alone() -> None:
    """Operators of a compiled function that run by themselves may enter the package's Python."""
    from torch._dynamo import trace_rules

    trace_rules.add("torch_outboard")


def _register_name() -> None:
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


def _register_backend() -> None:
    try:
        from torch._inductor.codegen import common

        from torch_outboard.inductor import cache_folder, pytorch_patches
        from torch_outboard.inductor.lowerings import convolutions, flex_kernels, products
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
    products.define()
    convolutions.define()
    flex_kernels.define()
    pytorch_patches.install()


def _count_steps_on_the_device() -> None:
    from torch_outboard.inductor import pytorch_patches

    pytorch_patches.count_steps_on_the_device()


def _take_flex_attention() -> None:
    from torch_outboard.inductor import pytorch_patches
    from torch_outboard.inductor.lowerings import flex_autocast

    pytorch_patches.take_flex_attention()
    flex_autocast.register()
