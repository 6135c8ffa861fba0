"""The command line: what was found on this machine, and why something is not used."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import torch

import torch_outboard
from torch_outboard import settings
from torch_outboard.drivers.discovery import choose_driver, installed_drivers
from torch_outboard.loading.autoload import reason_to_stay_away
from torch_outboard.state import check_active, state

# What each command is for, and the module of those that need more than this file: it has
# `add_arguments(parser)` and `run(options)`, and is imported only for its command.
COMMANDS = {
    "doctor": ("say what was found and what is wrong", None),
    "devices": ("list the devices of the driver in use", None),
    "tune": (
        "measure which kernels are faster, the device's or the host's, and let way `auto` use that",
        "torch_outboard.commands.tune",
    ),
    "prebuild": (
        "compile kernels ahead of their use and keep them on disk",
        "torch_outboard.commands.prebuild",
    ),
    "cache": ("show or clear what is kept on disk between runs", "torch_outboard.commands.cache"),
}

# Commands that look at files and start no device.
WITHOUT_DEVICE = ("cache",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0 if the device can be used."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m torch_outboard", description="A small driver in, a PyTorch device out."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    parsers = {
        name: commands.add_parser(name, help=words, description=words)
        for name, (words, _) in COMMANDS.items()
    }
    wanted = arguments[0] if arguments else ""
    module_name = COMMANDS[wanted][1] if wanted in COMMANDS else None
    if module_name is None:
        options = parser.parse_args(arguments)
        return {"doctor": doctor, "devices": devices}[options.command]()
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:  # the native part, whose absence has a better sentence
        print(state.extension_error or error, file=sys.stderr)
        return 1
    module.add_arguments(parsers[wanted])
    options = parser.parse_args(arguments)  # ends here for --help and what makes no sense
    if wanted not in WITHOUT_DEVICE:
        problem = _problem() or _problem_of_index(options.device)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
    status: int = module.run(options)
    return status


def doctor() -> int:
    """Prints versions, drivers, devices and what they can do, and the reason if one cannot be used.

    Returns:
        1 if no device can be used, or a check fails on one.
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
            _print_row(name, value)
    own_module = state.choice.module if state.choice is not None else None
    if names := settings.unknown(state.name, own_module):
        _print_row("settings", settings.words_about(names, own_module))
    if reason := reason_to_stay_away():
        _print_row("loading", f"not by `import torch` alone: {reason}")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        _print_row("loading", "not by `import torch` alone: TORCH_DEVICE_BACKEND_AUTOLOAD=0")
    problem = _problem()
    _print_row("device", f"'{state.name}'" if state.name else "not registered")
    if problem is not None:
        _print_row("problem", problem)
        return 1
    _print_row("devices", str(torch.get_device_module(state.name).device_count()))
    _print_ways()
    return devices() or _check_devices()


def devices() -> int:
    """Prints a table of the devices."""
    problem = _problem()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    name = state.name
    module = torch.get_device_module(name)
    rows = [("device", "name", "kind", "memory", "units", "host access")]
    for index in range(module.device_count()):
        p = module.get_device_properties(index)
        memory = f"{p.total_memory / 2**30:.1f} GiB"
        units = str(p.multi_processor_count)
        rows.append((f"{name}:{index}", p.name, p.kind, memory, units, p.host_access))
    _print_columns(rows)
    return 0


def _check_devices() -> int:
    """Tries copies and a kernel on every device and prints what came of it; 1 if any failed."""
    from torch_outboard.commands import device_checks

    name = state.name
    rows: list[tuple[str, ...]] = [("device", "check", "result", "seconds")]
    failed = []
    for index in range(torch.get_device_module(name).device_count()):
        for check in device_checks.check(torch.device(name, index)):
            rows.append((check.device, check.what, check.outcome, f"{check.seconds:.3f}"))
            if check.passed is False:
                failed.append(check)
    print()
    _print_columns(rows)
    for check in failed:
        print(f"\n{check.device} cannot {check.what}: {check.problem}")
    return 1 if failed else 0


def _print_columns(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def _problem() -> str | None:
    """Why the device cannot be used; None if it can."""
    try:
        check_active()
        torch.get_device_module(state.name).init()
    except RuntimeError as error:
        return str(error).partition("\nException raised from")[0]
    return None


def _problem_of_index(index: int) -> str | None:
    """Why there is no device of an index where the driver works; None if there is one."""
    name = state.name
    count = torch.get_device_module(name).device_count()
    if 0 <= index < count:
        return None
    there = "one device, 0" if count == 1 else f"{count} devices, 0 to {count - 1}"
    return f"device {index} was asked for, and '{name}' has {there}; `devices` lists them"


def _print_ways() -> None:
    """What way each device's operators take that runs code."""
    from torch_outboard import _C
    from torch_outboard.dispatch import ways
    from torch_outboard.tuning import tuning_file

    for index in range(_C.device_count()):
        if _C.runs_code(index):
            tuning = tuning_file.load(index)
            measured = f"as measured on {tuning.date}" if tuning else "not measured: run `tune`"
            _print_row(f"way of {index}", f"{ways.get_way(index)} ({measured})")


def _description(module_name: str | None) -> list[str]:
    """What a driver's module says about itself by `describe() -> str`, if it has that."""
    if module_name is None:
        return []
    try:
        module = importlib.import_module(module_name)
        return str(module.describe()).splitlines() if hasattr(module, "describe") else []
    except Exception as error:
        return [f"cannot be asked ({type(error).__name__}: {error})"]


def _print_row(title: str, text: str) -> None:
    print(f"{title:<16} {text}")
