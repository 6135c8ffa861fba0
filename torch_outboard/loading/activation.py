"""Registers the device with PyTorch: name, device module, generated methods and native code.

Nothing here calls the driver or raises: errors are deferred to the first use.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import sys
import types
import warnings
from typing import Any

import torch
from torch.utils import backend_registration

from torch_outboard.drivers.discovery import DEFAULT_DRIVER, DriverChoice, choose_driver
from torch_outboard.loading import unavailable
from torch_outboard.loading.driver_choice import register_driver
from torch_outboard.state import PACKAGE, state

# PyTorch's name of the free slot for out-of-tree devices.
_FREE_SLOT = "privateuseone"
# Submodules of the device module, by name, as modules of `torch_outboard.device`.
_PARTS = {
    **{name: name for name in ("amp", "graphs", "memory", "streams")},
    "random": "generators",
}


class DeferredModule(types.ModuleType):
    """A placeholder for a module; the first read of a name loads all names of the module.

    `import torch` registers the device module, which most programs use much later, or never.
    Attributes set before stay. Threads may read concurrently: the import system lets only one of
    them import.

    Args:
        name: the full name of the module.
    """

    def __getattr__(self, name: str) -> Any:
        # `inspect` reads the file of every module.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._become()
        return getattr(self, name)

    def __dir__(self) -> list[str]:
        self._become()
        return dir(self)

    def _become(self) -> None:
        module = importlib.import_module(self.__name__)
        own = self.__dict__
        for name, value in vars(module).items():
            if own.get(name) is None:  # `__doc__` and `__spec__` are None until here
                own[name] = value
        self.__class__ = types.ModuleType  # type: ignore[assignment]


def activate() -> None:
    """Registers the device with PyTorch, once; later calls do nothing."""
    if state.inactive is None:
        return
    holder = torch._C._get_privateuse1_backend_name()
    if holder != _FREE_SLOT:
        state.inactive = (
            f"another backend, '{holder}', has taken PyTorch's one slot for out-of-tree devices in "
            "this process; uninstall it, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import "
            "torch_outboard first"
        )
        return
    try:
        choice = choose_driver(os.environ.get("OUTBOARD_DRIVER") or DEFAULT_DRIVER)
        if why := name_problem(choice.name):
            problem = (
                f"OUTBOARD_DRIVER={choice.name!r} cannot name a device, because {why}; the "
                f"device is called '{DEFAULT_DRIVER}' until OUTBOARD_DRIVER names an installed "
                "driver"
            )
            # A warning, because a device string with this name fails in PyTorch's parser.
            warnings.warn(problem, stacklevel=2)
            choice = DriverChoice(DEFAULT_DRIVER, problem=problem)
        _register(choice)
    except Exception as error:
        state.inactive = f"registering the device failed ({type(error).__name__}: {error})"


def name_problem(name: str) -> str | None:
    """Why a driver's name cannot be a device name in PyTorch; None if it can."""
    # PyTorch's parser of "name:index" accepts only letters and underscores.
    if not re.fullmatch(r"[a-z_]*[a-z][a-z_]*", name):
        return "PyTorch takes lower-case letters and underscores only, no digits"
    if hasattr(torch, name) or hasattr(torch.Tensor, name) or _is_device_type(name):
        return "PyTorch uses that name for something else"
    return None


def _is_device_type(name: str) -> bool:
    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def _register(choice: DriverChoice) -> None:
    device_module: types.ModuleType
    state.extension_error = _load_extension(choice.name)
    if state.extension_error is not None:
        unavailable.raise_from_every_operator(state.extension_error)
        unavailable.stand_in_for_extension(state.extension_error)
        device_module = unavailable.AbsentDevice(choice.name, state.extension_error)
    else:
        from torch_outboard import _C

        device_module = DeferredModule("torch_outboard.device.device_module")
        _C.register_hooks()
        _C.set_device_kernel_loader(_load_device_kernels)
        register_driver(choice)
        if os.environ.get("OUTBOARD_FAULTS"):
            from torch_outboard.drivers import faults

            _C.add_driver_layer(faults.library_path())
        if os.environ.get("OUTBOARD_VALIDATE") == "1":
            from torch_outboard.drivers import validation

            _C.add_driver_layer(validation.library_path())

    name = choice.name
    backend_registration.rename_privateuse1_backend(name)
    torch._register_device_module(name, device_module)
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    state.name = name
    state.inactive = None
    if state.extension_error is None:
        from torch_outboard import distributed
        from torch_outboard.device import serialization
        from torch_outboard.inductor.registration import register_when_imported
        from torch_outboard.loading import pytorch_workarounds

        unavailable.register_other_devices(name)
        distributed.register(name)
        serialization.register()
        _C.register_graphs()
        _C.register_packaged_models()
        # Registered first, so that it runs after the functions that programs register.
        atexit.register(_C.finalize_driver)
        _make_importable(name)
        pytorch_workarounds.install()
        register_when_imported()
        _apply_settings()


def _load_extension(device: str) -> str | None:
    """Imports the native part; returns the reason why it cannot be used, or None."""
    # A native part built for another PyTorch may load without an error and crash later.
    built_for = _version_built_for()
    if built_for not in (None, ".".join(torch.__version__.split(".")[:2])):
        return (
            f"The device '{device}' cannot be used, because torch_outboard was built for PyTorch "
            f"{built_for} and this is PyTorch {torch.__version__}; install torch=={built_for}.* or "
            "build torch_outboard again with this one."
        )
    try:
        importlib.import_module("torch_outboard._C")
    except ImportError as error:
        return (
            f"The device '{device}' cannot be used, because the native part of torch_outboard does "
            f"not load with PyTorch {torch.__version__} ({error}); build torch_outboard again for "
            "this PyTorch and Python."
        )
    return None


def _version_built_for() -> str | None:
    """Major and minor version of PyTorch that the native part was built with, if recorded."""
    try:
        return (PACKAGE / "lib" / "torch_version.txt").read_text().strip()
    except OSError:
        return None


def _make_importable(name: str) -> None:
    """Makes `import torch.<name>.memory` and the like work."""
    for part, module in _PARTS.items():
        sys.modules[f"torch.{name}.{part}"] = DeferredModule(f"torch_outboard.device.{module}")


def _apply_settings() -> None:
    from torch_outboard import settings

    try:
        settings.warn_of_unknown(state.choice.name if state.choice is not None else "")
        if any(variable.startswith("OUTBOARD_FALLBACK_") for variable in os.environ):
            from torch_outboard.dispatch import fallback

            fallback.configure_from_environment()
        if os.environ.get("OUTBOARD_PLACEMENT"):
            from torch_outboard.dispatch import placement

            placement.configure_from_environment()
    except (ValueError, Warning) as error:
        # Warnings may be errors, but `import torch` must not fail.
        state.wrong_setting = str(error)


def _load_device_kernels() -> None:
    """Loads the operator tables; the router calls this at the first use of a device."""
    from torch_outboard import _C
    from torch_outboard.ops import program_cache, tables

    program_cache.configure()
    _C.probe_compilers()
    tables.load()
