"""The command line."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from torch_outboard.commands.problems import device_problem, index_problem
from torch_outboard.state import state

# What each command is for. The module of its name in this folder has `add_arguments(parser)` and
# `run(options)`, which returns the exit status; it is imported only for its command.
COMMANDS = {
    "doctor": "say what was found and what is wrong",
    "devices": "list the devices of the driver in use",
    "tune": (
        "measure which kernels are faster, the device's or the host's, and let way `auto` use that"
    ),
    "prebuild": "compile kernels ahead of their use and keep them on disk",
    "cache": "show or clear what is kept on disk between runs",
}

# Commands that run only where there is the device of their option `--device`.
ON_DEVICE = ("tune", "prebuild")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status: 0 if it did what was asked for."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python -m torch_outboard", description="A small driver in, a PyTorch device out."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    parsers = {
        name: commands.add_parser(name, help=words, description=words)
        for name, words in COMMANDS.items()
    }
    wanted = arguments[0] if arguments else ""
    if wanted not in COMMANDS:
        wanted = parser.parse_args(arguments).command  # mostly ends here: help, or what is wrong
    try:
        module = importlib.import_module(f"torch_outboard.commands.{wanted}")
    except ImportError as error:  # the native part, whose absence has a better sentence
        print(state.extension_error or error, file=sys.stderr)
        return 1
    module.add_arguments(parsers[wanted])
    options = parser.parse_args(arguments)  # ends here for --help and what makes no sense
    if wanted in ON_DEVICE:
        problem = device_problem() or index_problem(options.device)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 1
    status: int = module.run(options)
    return status
