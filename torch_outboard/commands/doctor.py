"""The command `doctor`: drivers and devices of this machine, and reasons if one is not used.

python -m torch_outboard doctor
OUTBOARD_DRIVER=host python -m torch_outboard doctor
OUTBOARD_DRIVER=$PWD/libob_mychip.so python -m torch_outboard doctor
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

import torch

import torch_outboard
from torch_outboard import settings
from torch_outboard.columns import print_columns
from torch_outboard.commands import devices
from torch_outboard.drivers import validation
from torch_outboard.drivers.discovery import choose_driver, installed_drivers
from torch_outboard.loading.autoload import reason_to_stay_away
from torch_outboard.setting_table import SETTINGS
from torch_outboard.state import state


def run(options: argparse.Namespace) -> int:
    """Prints versions, drivers, devices, capabilities, and the reason if one cannot be used.

    Returns:
        1 if no device can be used, or a check of a device fails.
    """
    _print_row("torch_outboard", torch_outboard.__version__)
    _print_row("PyTorch", torch.__version__)
    _print_row("Python", sys.version.split()[0])
    for name in sorted(installed_drivers()):
        choice = choose_driver(name)
        _print_row(f"driver {name}", str(choice.library or choice.problem or choice.module))
        for line in _description(choice.module):
            _print_row("", line)
    for name, value in sorted(os.environ.items()):
        if name.startswith(settings.PREFIX):
            setting = SETTINGS.get(name)
            problem = settings.problem_with(setting, value) if setting and value else None
            _print_row(name, f"{value} ({problem})" if problem else value)
    own_module = state.choice.module if state.choice is not None else None
    if names := settings.unknown(state.name, own_module):
        _print_row("settings", settings.words_about(names, own_module))
    if reason := reason_to_stay_away():
        _print_row("loading", f"not by `import torch` alone: {reason}")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        _print_row("loading", "not by `import torch` alone: TORCH_DEVICE_BACKEND_AUTOLOAD=0")
    _validate()
    problem = devices.device_problem()
    _print_row("device", f"'{state.name}'" if state.name else "not registered")
    if problem is not None:
        _print_row("problem", problem)
        return 1
    _print_row("devices", str(torch.get_device_module(state.name).device_count()))
    _print_placements()
    _print_libraries()
    return devices.run(options) or _check_devices()


def _validate() -> None:
    """Compares the answers of the driver with the contract, unless the environment says not to."""
    if state.extension_error is not None or os.environ.get("OUTBOARD_VALIDATE") == "0":
        return
    from torch_outboard import _C

    if not _C.driver_initialized():
        _C.add_driver_layer(validation.library_path())


def _check_devices() -> int:
    """Checks copies and a kernel on every device and prints the results; 1 if any failed."""
    from torch_outboard.commands import device_checks

    rows: list[tuple[str, ...]] = [("device", "check", "result", "seconds")]
    failed = []
    for device in _devices():
        for check in device_checks.check(device):
            rows.append((check.device, check.what, check.outcome, f"{check.seconds:.3f}"))
            if check.passed is False:
                failed.append(check)
    print()
    print_columns(rows)
    for check in failed:
        print(f"\n{check.device} cannot {check.what}: {check.problem}")
    if failed:
        return 1
    _print_speeds()
    return 0


def _devices() -> list[torch.device]:
    count = torch.get_device_module(state.name).device_count()
    return [torch.device(state.name, index) for index in range(count)]


def _print_speeds() -> None:
    """Prints rough speeds of every device."""
    from torch_outboard.commands import device_checks

    rows: list[tuple[str, ...]] = [("device", "speed of", "")]
    for device in _devices():
        rows += [(str(device), *speed) for speed in device_checks.speeds(device)]
    print()
    print_columns(rows, right=(2,))


def _print_placements() -> None:
    """Prints the placement of operators for each device that compiles kernels."""
    from torch_outboard import _C
    from torch_outboard.dispatch import placement

    for index in range(_C.device_count()):
        if not _C.runs_code(index):
            continue
        setting = placement.get_placement(index)
        if setting == "auto" and placement.runs_on_device(index):
            setting = "device kernels (auto)"
        elif setting == "auto":
            setting = "CPU kernels (auto); OUTBOARD_PLACEMENT=device may make large steps faster"
        _print_row(f"placement of {index}", setting)


def _print_libraries() -> None:
    """Prints the installed libraries that need an integration."""
    from torch_outboard import integrations

    if found := integrations.report():
        print(f"\n{found}\n")
        print("torch_outboard.integrations.enable() adds the device to them.\n")


def _description(module_name: str | None) -> list[str]:
    """Lines from the function `describe() -> str` of a driver's module, if it has one."""
    if module_name is None:
        return []
    try:
        module = importlib.import_module(module_name)
        return str(module.describe()).splitlines() if hasattr(module, "describe") else []
    except Exception as error:
        return [f"cannot be asked ({type(error).__name__}: {error})"]


def _print_row(title: str, text: str) -> None:
    print(f"{title:<16} {text}")
