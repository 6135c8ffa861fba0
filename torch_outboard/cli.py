"""The command line: what was found on this machine, and why something is not used."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

import torch

import torch_outboard
from torch_outboard import _activation
from torch_outboard.driver_discovery import choose_driver, installed_drivers


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0 if the device can be used."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_outboard", description="A small driver in, a PyTorch device out."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    table: dict[str, tuple[Callable[[], int], str]] = {
        "doctor": (doctor, "say what was found and what is wrong"),
        "devices": (devices, "list the devices of the driver in use"),
    }
    for name, (_, description) in table.items():
        commands.add_parser(name, help=description, description=description)
    return table[parser.parse_args(arguments).command][0]()


def doctor() -> int:
    """Prints versions, drivers, the device and the reason if it cannot be used."""
    state = _activation.state
    _print_row("torch_outboard", torch_outboard.__version__)
    _print_row("PyTorch", torch.__version__)
    _print_row("Python", sys.version.split()[0])
    for name in sorted(installed_drivers()):
        choice = choose_driver(name)
        _print_row(f"driver {name}", str(choice.library or choice.problem or choice.module))
        for line in _description(choice.module):
            _print_row("", line)
    for name, value in sorted(os.environ.items()):
        if name.startswith("OUTBOARD_"):
            _print_row(name, value)
    if reason := _activation.reason_to_stay_away():
        _print_row("loading", f"not by `import torch` alone: {reason}")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        _print_row("loading", "not by `import torch` alone: TORCH_DEVICE_BACKEND_AUTOLOAD=0")
    problem = _problem()
    _print_row("device", f"'{state.name}'" if state.name else "not registered")
    if problem is not None:
        _print_row("problem", problem)
        return 1
    _print_row("devices", str(torch.get_device_module(state.name).device_count()))
    return devices()


def devices() -> int:
    """Prints a table of the devices."""
    problem = _problem()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    name = _activation.state.name
    module = torch.get_device_module(name)
    rows = [("device", "name", "kind", "memory", "units", "host access")]
    for index in range(module.device_count()):
        p = module.get_device_properties(index)
        memory = f"{p.total_memory / 2**30:.1f} GiB"
        units = str(p.multi_processor_count)
        rows.append((f"{name}:{index}", p.name, p.kind, memory, units, p.host_access))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def _problem() -> str | None:
    """Why the device cannot be used; None if it can."""
    try:
        _activation.check_active()
        torch.get_device_module(_activation.state.name).init()
    except RuntimeError as error:
        return str(error).partition("\nException raised from")[0]
    return None


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
