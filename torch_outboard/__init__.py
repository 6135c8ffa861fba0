"""torch_outboard: a small driver in, a complete out-of-tree PyTorch device out.

`import torch` is enough to use the device. This package has the functions that PyTorch lacks: paths
to build against, the choice of a driver, and tensors that share memory with the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torch_outboard import state as _state
from torch_outboard.loading import activation as _activation

if TYPE_CHECKING:
    from torch_outboard._C import Declined
    from torch_outboard.device.host_memory import as_cpu, from_cpu
    from torch_outboard.dispatch import fallback, placement
    from torch_outboard.dispatch.model_prebuild import prebuild
    from torch_outboard.dispatch.operator_checks import opcheck
    from torch_outboard.dispatch.registrations import registering, registrations
    from torch_outboard.dispatch.user_kernels import kernel
    from torch_outboard.inspection.tracing import trace
    from torch_outboard.loading.driver_choice import use_driver
    from torch_outboard.ops.template import Plan

__all__ = [
    "Declined",
    "Plan",
    "__version__",
    "as_cpu",
    "cmake_path",
    "device_name",
    "fallback",
    "from_cpu",
    "include_paths",
    "kernel",
    "library_path",
    "opcheck",
    "placement",
    "prebuild",
    "registering",
    "registrations",
    "trace",
    "use_driver",
]

# Modules, and names of modules; imported at the first access, so that `import torch` stays fast.
_LAZY = {
    "Declined": "torch_outboard._C",
    "Plan": "torch_outboard.ops.template",
    "fallback": "torch_outboard.dispatch.fallback",
    "placement": "torch_outboard.dispatch.placement",
    "as_cpu": "torch_outboard.device.host_memory",
    "kernel": "torch_outboard.dispatch.user_kernels",
    "from_cpu": "torch_outboard.device.host_memory",
    "opcheck": "torch_outboard.dispatch.operator_checks",
    "prebuild": "torch_outboard.dispatch.model_prebuild",
    "registering": "torch_outboard.dispatch.registrations",
    "registrations": "torch_outboard.dispatch.registrations",
    "trace": "torch_outboard.inspection.tracing",
    "use_driver": "torch_outboard.loading.driver_choice",
}


def device_name() -> str:
    """The name of the device in PyTorch: `torch.device(device_name())`.

    Raises:
        RuntimeError: if the device is not registered with PyTorch, with the reason.
    """
    _state.check_active()
    return _state.state.name


def include_paths() -> list[str]:
    """Folders for the compiler's include path: `#include <outboard/driver.h>`."""
    return [str(_state.PACKAGE / "include")]


def library_path() -> str:
    """The library to link a kernel extension against. A driver needs none."""
    return str(_state.PACKAGE / "lib" / "libtorch_outboard.so")


def cmake_path() -> str:
    """The folder of the CMake config: `find_package(torch_outboard PATHS <cmake_path()>)`."""
    return str(_state.PACKAGE / "share" / "cmake")


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        import importlib.metadata

        return importlib.metadata.version("torch-outboard")
    if name in _LAZY:
        module = importlib.import_module(_LAZY[name])
        return module if name in ("fallback", "placement") else getattr(module, name)
    raise AttributeError(f"module 'torch_outboard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# While PyTorch itself is being imported, its entry point calls `loading.autoload` next, which
# decides. In all other cases a program imported this package explicitly.
if not getattr(torch.__spec__, "_initializing", False):
    _activation.activate()
