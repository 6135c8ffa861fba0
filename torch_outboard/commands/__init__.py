"""The command line, `python -m torch_outboard <command>`, and one module for each command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from torch_outboard.commands.devices import device_problem, index_problem
from torch_outboard.state import state

# Help by command. The module of the same name in this folder has `run(options)`, which returns the
# exit status, and, for a command with options, `add_arguments(parser)`; it is imported only for its
# command.
COMMANDS = {
    "doctor": "say what was found and what is wrong",
    "devices": "list the devices of the driver in use",
    "prebuild": "compile kernels ahead of their use and keep them on disk",
    "cache": "show or clear what is kept on disk between runs",
    "operators": "list PyTorch's operators, what runs them, and what differs in another PyTorch",
    "explain": "show what runs an operator, where and why: dispatch keys, kernels",
    "trace": "run a program and show which operators it called, by which keys and where",
}

# Commands that need the device of their option `--device`.
ON_DEVICE = ("prebuild", "operators", "explain")


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
        self.set_defaults(run=module.run)
        return super().parse_known_args(args, namespace)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0 for success."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_outboard", description="A small driver in, a PyTorch device out."
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="command", parser_class=_CommandParser
    )
    for name, words in COMMANDS.items():
        commands.add_parser(name, help=words, description=words)
    options = parser.parse_args(arguments)
    # Comparing versions of PyTorch needs no device.
    if options.command in ON_DEVICE and getattr(options, "against", None) is None:
        problem = device_problem() or index_problem(options.device)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
    status: int = options.run(options)
    return status
