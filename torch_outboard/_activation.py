"""Registers the device with PyTorch: name, device module, generated methods and native code.

Nothing here calls the driver, and nothing raises: what goes wrong is kept and becomes the error of
the first use.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import threading
import types
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils import backend_registration

from torch_outboard.driver_discovery import (
    DEFAULT_DRIVER,
    SHIPPED_DRIVERS,
    DriverChoice,
    ask_module,
    choose_driver,
)

DRIVER_VARIABLE = "OUTBOARD_DRIVER"
TORTURE_VARIABLE = "OUTBOARD_TORTURE"
FALLBACK_VARIABLES = "OUTBOARD_FALLBACK_"
WAY_VARIABLE = "OUTBOARD_WAY"
CACHE_VARIABLES = ("OUTBOARD_CACHE_LIMIT", "OUTBOARD_CACHE_SHARED")

# What PyTorch calls the slot while nobody has taken it.
_FREE_SLOT = "privateuseone"


@dataclass
class State:
    """What happened so far."""

    # The device's name in PyTorch; "" before activation and when it failed.
    name: str = ""
    # Why the device is not registered with PyTorch; None when it is.
    inactive: str | None = "it was not activated: import torch_outboard after torch"
    # Why the native code could not be loaded; None when it could.
    extension_error: str | None = None
    # What is wrong with a setting in the environment; raised at the first use.
    wrong_setting: str | None = None
    choice: DriverChoice | None = None


state = State()


def check_active() -> None:
    """Raises RuntimeError if the device is not registered with PyTorch or cannot work at all."""
    if state.inactive is not None:
        raise RuntimeError(f"torch_outboard is not in use: {state.inactive}.")
    if state.extension_error is not None:
        raise RuntimeError(state.extension_error)


def reason_to_stay_away() -> str | None:
    """Why the device must not register itself unless it is asked for; None if it may."""
    if os.environ.get(DRIVER_VARIABLE):
        return None
    if other := _accelerator_present():
        return (
            f"this machine has {other}, and PyTorch would prefer this device as the accelerator; "
            f"import torch_outboard or set {DRIVER_VARIABLE} to use it anyway"
        )
    if others := _other_backends():
        return (
            f"another PyTorch backend is installed ({', '.join(others)}), and PyTorch has one slot "
            f"for out-of-tree devices; import torch_outboard or set {DRIVER_VARIABLE} to use this "
            "one"
        )
    return None


# Device files by which an accelerator shows without calling its driver.
_CUDA_FILES = ("/dev/nvidiactl", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
_XPU_FILES = ("/dev/dri", "/dev/dxg")


def _accelerator_present() -> str | None:
    built_and_files = (
        ("CUDA", torch.backends.cuda.is_built(), _CUDA_FILES),
        ("XPU", torch.xpu._is_compiled(), _XPU_FILES),
    )
    for name, built, files in built_and_files:
        if built and any(os.path.exists(file) for file in files):
            return name
    return None


def _other_backends() -> list[str]:
    from importlib.metadata import entry_points

    found = entry_points(group="torch.backends")
    return sorted({e.name for e in found if not e.value.startswith("torch_outboard.")})


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
        choice = choose_driver(os.environ.get(DRIVER_VARIABLE) or DEFAULT_DRIVER)
        if problem := _name_problem(choice.name):
            # PyTorch refuses this name before anybody asks the device that stands in.
            warnings.warn(problem, stacklevel=2)
            choice = DriverChoice(DEFAULT_DRIVER, problem=problem)
        _register(choice)
    except Exception as error:
        state.inactive = f"registering the device failed ({type(error).__name__}: {error})"


def _name_problem(name: str) -> str | None:
    """Why a driver's name cannot be the name of a device in PyTorch."""
    # PyTorch's parser of "name:index" takes letters and underscores only.
    if not re.fullmatch(r"[a-z_]*[a-z][a-z_]*", name):
        why = "PyTorch takes lower-case letters and underscores only, no digits"
    elif hasattr(torch, name) or hasattr(torch.Tensor, name) or name in ("opencl", "opengl"):
        why = "PyTorch uses that name for something else"
    else:
        return None
    return (
        f"{DRIVER_VARIABLE}={name!r} cannot name a device, because {why}; the device is called "
        f"'{DEFAULT_DRIVER}' until {DRIVER_VARIABLE} names an installed driver"
    )


def _register(choice: DriverChoice) -> None:
    device_module: types.ModuleType
    state.extension_error = _load_extension(choice.name)
    if state.extension_error is not None:
        from torch_outboard import unavailable

        unavailable.raise_from_every_operator(state.extension_error)
        unavailable.stand_in_for_extension(state.extension_error)
        device_module = unavailable
    else:
        from torch_outboard import _C, device_module

        _C.register_hooks()
        _C.set_bring_device_kernels(_bring_device_kernels)
        hand_over(choice)
        if os.environ.get(TORTURE_VARIABLE):
            folder = Path(__file__).parent / "drivers" / "torture"
            _C.use_wrapper_library(str(folder / "libob_torture.so"))

    name = choice.name
    backend_registration.rename_privateuse1_backend(name)
    torch._register_device_module(name, device_module)
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    state.name = name
    state.inactive = None
    if state.extension_error is None:
        from torch_outboard import other_devices
        from torch_outboard.device_module import finish_registration

        other_devices.register(name)
        finish_registration(name)
        _apply_settings()


def _load_extension(device: str) -> str | None:
    """Imports the native part; returns why it cannot be used, None if it can."""
    # One that was built for another PyTorch may load all the same, and crash later.
    built_for = _built_for()
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


def _built_for() -> str | None:
    """Major and minor version of the PyTorch that the native part was built with, where noted."""
    try:
        return (Path(__file__).parent / "lib" / "torch_version.txt").read_text().strip()
    except OSError:
        return None


def _apply_settings() -> None:
    _warn_of_unknown_settings()
    try:
        if any(variable.startswith(FALLBACK_VARIABLES) for variable in os.environ):
            from torch_outboard import fallback

            fallback.configure_from_environment()
        if os.environ.get(WAY_VARIABLE):
            from torch_outboard import ways

            ways.configure_from_environment()
        if any(os.environ.get(variable) for variable in CACHE_VARIABLES):
            from torch_outboard.ops import program_cache

            program_cache.check_settings()
    except ValueError as error:
        state.wrong_setting = str(error)


def _warn_of_unknown_settings() -> None:
    from torch_outboard import settings

    try:
        settings.warn_of_unknown(state.choice.name if state.choice is not None else "")
    except Warning as error:  # warnings are errors, and `import torch` does not fail because of us
        state.wrong_setting = str(error)


def warn_of_unknown_settings_of_driver() -> None:
    """Asks a driver that is not of this package for its settings, at the first use."""
    choice = state.choice
    if choice is None or choice.module is None or choice.name in SHIPPED_DRIVERS:
        return
    from torch_outboard import settings

    settings.warn_of_unknown_of_driver(choice.name, choice.module)


def _bring_device_kernels() -> None:
    """Hands the operator tables over; the router calls this at the first use of a device."""
    from torch_outboard import _C, tuning_file
    from torch_outboard.ops import program_cache, tables

    program_cache.configure()
    _C.probe_compilers()
    tuning_file.apply_all()
    tables.hand_over()


def hand_over(choice: DriverChoice) -> None:
    """Tells the runtime where the driver is; nothing is loaded yet.

    Raises:
        RuntimeError: if a driver is in use already.
    """
    from torch_outboard import _C

    if choice.table is not None:
        _C.use_driver_table(choice.name, choice.table)
    elif choice.library is not None:
        _C.use_driver_library(choice.name, str(choice.library))
    elif choice.problem is not None:
        _C.use_no_driver(choice.name, choice.problem)
    else:
        _C.use_driver_finder(choice.name, _ask_driver_module)
    state.choice = choice


# The module may use the device while it is imported.
_module_lock = threading.RLock()


def _ask_driver_module() -> None:
    """Imports the driver's module and asks it; the runtime calls this at the first use.

    If it has no driver to give, the reason becomes the error of every use.
    """
    choice = state.choice
    if choice is None or not choice.must_ask:
        return
    with _module_lock:
        if state.choice is not choice:
            return
        try:
            answer = ask_module(choice)
        except RuntimeError as error:
            hand_over(dataclasses.replace(choice, problem=str(error)))
            return
        if isinstance(answer, int):
            hand_over(dataclasses.replace(choice, table=answer))
        else:
            hand_over(dataclasses.replace(choice, library=answer))
