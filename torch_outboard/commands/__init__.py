"""The command line, `python -m torch_outboard <command>`, and one module for each command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import torch_outboard
from torch_outboard.commands.devices import device_problem, index_problem
from torch_outboard.state import state

# Help by command. The module of the same name in this folder has `run(options)`, which returns the
# exit status, and, for a command with options, `add_arguments(parser)`; it is imported only for its
# command. Lines of its docstring with PROGRAM and without backticks are the examples of `--help`.
COMMANDS = {
    "new": "write the project of a driver for a new device",
    "doctor": "check drivers, devices and settings, and name what is wrong",
    "devices": "list the devices of the driver in use",
    "check": "check a driver against the driver contract",
    "prebuild": "compile kernels ahead of use and cache them on disk",
    "cache": "show or clear the caches on disk",
    "operators": "list operators and their kernels, or differences to another PyTorch",
    "explain": "show the kernel of an operator, its placement and the reason",
    "scoreboard": "run PyTorch's own tests on the device, and show the results",
    "trace": "run a program and list its operator calls and placements",
}

PROGRAM = "python -m torch_outboard"

# Commands that need the device of their option `--device`.
ON_DEVICE = ("prebuild", "operators", "explain")


class _Formatter(argparse.HelpFormatter):
    """Wraps paragraphs, and leaves texts of several lines as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class _CommandParser(argparse.ArgumentParser):
    """The parser of a command; it imports the command's module when the command is parsed."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        name = self.prog.rpartition(" ")[2]
        try:
            module = importlib.import_module(f"torch_outboard.commands.{name}")
        except ImportError as error:  # of the native part, for which `state` has a better message
            self.exit(1, f"{state.extension_error or error}\n")
        if hasattr(module, "add_arguments"):
            module.add_arguments(self)
        examples = [
            line.strip()
            for line in (module.__doc__ or "").splitlines()
            if PROGRAM in line and "`" not in line
        ]
        parts = ["\n  ".join(["examples:", *examples]), self.epilog or ""]
        self.epilog = "\n\n".join(part for part in parts if part)
        self.set_defaults(run=module.run)
        return super().parse_known_args(args, namespace)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0 for success."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description="A PyTorch device from a C driver.")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=_CommandParser)
    for name, words in COMMANDS.items():
        commands.add_parser(name, help=words, description=words, formatter_class=_Formatter)
    options = parser.parse_args(arguments)
    if options.command is None:
        print(overview())
        return 0
    # Comparing versions of PyTorch needs no device.
    if options.command in ON_DEVICE and getattr(options, "against", None) is None:
        problem = device_problem() or index_problem(options.device)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
    status: int = options.run(options)
    return status


def overview() -> str:
    """What can be done: the answer to no command."""
    lines = [
        f"torch_outboard {torch_outboard.__version__}",
        f"usage: {PROGRAM} COMMAND; COMMAND --help has options and examples",
    ]
    width = max(map(len, COMMANDS))
    lines += [f"  {name:{width}}  {words}" for name, words in COMMANDS.items()]
    return "\n".join([*lines, f"Begin with {PROGRAM} doctor."])
