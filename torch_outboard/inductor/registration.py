"""Registers the device with PyTorch's compiler when the compiler is imported.

The import of the compiler takes as long as the import of PyTorch itself. So each registration waits
until the module that it changes is imported.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import torch
from torch._C import DispatchKey, DispatchKeySet

from torch_outboard import _C
from torch_outboard.after_import import after_import
from torch_outboard.state import state

# Environment variable with the folder of Inductor's cache.
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def register_when_imported() -> None:
    """Registers the device with the modules of the compiler as soon as they are imported."""
    after_import("torch._dynamo.device_interface", _register_interface)
    # Dynamo skips the package, whose Python code operators of a compiled function may run.
    after_import("torch._dynamo.trace_rules", lambda rules: rules.add("torch_outboard"))
    after_import("torch._dynamo.backends.registry", _register_name)
    after_import("torch._dynamo.variables.optimizer", _count_steps_on_the_device)
    after_import("torch._inductor.compile_fx", _register_backend)
    after_import("torch.nn.attention.flex_attention", _take_flex_attention)


def _register_interface(module: ModuleType) -> None:
    from torch_outboard.inductor.device_interface import OutboardInterface

    module.register_interface_for_device(state.name, OutboardInterface)


def _register_name(registry: ModuleType) -> None:
    """Makes `torch.compile(backend=<name>)` an alias of the backend "inductor"."""
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

        from torch_outboard.inductor import passes, pytorch_patches
        from torch_outboard.inductor.lowerings import flex_kernels, interpolation
        from torch_outboard.inductor.scheduling import OpenCLScheduling
        from torch_outboard.inductor.wrapper import OutboardOperations, OutboardWrapper
    except (ImportError, AttributeError) as problem:
        # The rest of the compiler must stay importable.
        warnings.warn(
            f"torch.compile has no backend for '{state.name}' in this PyTorch, which has changed "
            f"what the backend builds on ({problem}); use PyTorch 2.13, or "
            'torch.compile(..., backend="aot_eager")',
            stacklevel=2,
        )
        return
    avoid_folder_of_others()
    common.register_backend_for_device(state.name, OpenCLScheduling, OutboardWrapper)
    common.register_device_op_overrides(state.name, OutboardOperations())
    passes.define()
    flex_kernels.define()
    interpolation.define()
    pytorch_patches.install()


def _count_steps_on_the_device(_: ModuleType) -> None:
    from torch_outboard.inductor import pytorch_patches

    pytorch_patches.count_steps_on_the_device()


def _take_flex_attention(_: ModuleType) -> None:
    from torch_outboard.inductor import pytorch_patches

    pytorch_patches.take_flex_attention()
    _cast_flex_attention()


def _cast_flex_attention() -> None:
    """Casts query, key and value under autocast, eager or compiled.

    PyTorch's operator has this rule for CPU and CUDA only.
    """
    flex_attention = torch.ops.higher_order.flex_attention
    autocast = DispatchKey.AutocastPrivateUse1
    if autocast in flex_attention.py_kernels:
        return

    def converted(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.dtype == torch.float64:
            return tensor
        return tensor.to(torch.get_autocast_dtype(tensor.device.type))

    def attend(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any
    ) -> tuple[torch.Tensor, ...]:
        with torch._C._ExcludeDispatchKeyGuard(DispatchKeySet(autocast)):
            results: tuple[torch.Tensor, ...] = flex_attention(
                converted(query), converted(key), converted(value), *others
            )
        return results

    flex_attention.py_impl(autocast)(attend)


def avoid_folder_of_others() -> None:
    """Sets a private temporary cache folder, and warns, if other users can write to Inductor's.

    Inductor loads pickles, Python and libraries from its cache folder and checks neither owner nor
    mode. The default folder has a guessable name in the folder for temporary files. Call this
    before Inductor reads anything.
    """
    from torch_outboard.ops import program_cache

    try:
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        folder = os.path.abspath(os.environ.get(CACHE_VARIABLE) or default_cache_dir())
        # Created here, before another user can create it.
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except (ImportError, OSError):
        return  # Inductor reports the error
    problem = _C.private_folder_problem(folder, program_cache.shared())
    if not problem:
        return
    private = tempfile.mkdtemp(prefix="torchinductor-")
    os.environ[CACHE_VARIABLE] = private
    atexit.register(_remove, private, os.getpid())
    warnings.warn(
        f"compiled graphs are not cached, because Inductor loads code from its cache and {problem}"
        "; make it yours and writable by you alone (chmod go-w), or name another with "
        f"{CACHE_VARIABLE}",
        stacklevel=2,
    )


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
