"""`python -m torch_outboard check`: whether a driver does what the contract says.

python -m torch_outboard check                                  # the driver in use
python -m torch_outboard check ./libob_mychip.so
python -m torch_outboard check mychip --only transfers --only events.elapsed --json
"""

from __future__ import annotations

import argparse
import os
import sys

import torch

import torch_outboard
from torch_outboard.check import report as reports
from torch_outboard.check.catalog import all_checks, chosen
from torch_outboard.check.outcome import Outcome, Verdict
from torch_outboard.check.runner import RUNS, Options, run_checks
from torch_outboard.columns import print_columns
from torch_outboard.drivers import contract
from torch_outboard.drivers.discovery import DEFAULT_DRIVER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Opens a driver without PyTorch and runs the checks of the driver contract, each in a "
        "process, once directly and once behind fault injection and validation. A failure names "
        "the function, the sentence of driver.h, what was expected, what came, and the next step. "
        "Exit status 1 if a check fails or the driver cannot be opened."
    )
    parser.add_argument(
        "driver",
        nargs="?",
        help="an installed driver, or the path of a library (default: OUTBOARD_DRIVER, else "
        f"{DEFAULT_DRIVER})",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="a group, a check or a pattern such as 'copy*'; several may be given",
    )
    parser.add_argument(
        "--run",
        dest="which",
        choices=RUNS,
        help="one of the two runs: without layers, or behind fault injection and validation",
    )
    parser.add_argument("--jobs", type=int, default=0, help="processes at once (default: by CPUs)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("--list", action="store_true", help="print the checks and run none")


def run(options: argparse.Namespace) -> int:
    """Runs the checks and prints the report; 1 if one fails or the driver cannot be opened."""
    if options.list:
        print_columns([("check", "about"), *((n, c.what) for n, c in all_checks().items())])
        return 0
    wanted = options.driver or os.environ.get("OUTBOARD_DRIVER") or DEFAULT_DRIVER
    if os.sep in wanted or wanted.endswith(".so"):
        wanted = os.path.abspath(wanted)
    try:
        checks = chosen(options.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # in the processes of checks
    report = run_checks(
        wanted,
        checks,
        Options((options.which,) if options.which else RUNS, options.jobs),
        on_outcome=_show_progress,
    )
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    versions = {
        "torch_outboard": torch_outboard.__version__,
        "PyTorch": torch.__version__,
        "contract": f"{contract.VERSION_MAJOR}.{contract.VERSION_MINOR}",
    }
    print((reports.as_json if options.json else reports.as_text)(report, versions))
    return 1 if report.problem or report.failures else 0


def _show_progress(outcome: Outcome, number: int, count: int) -> None:
    """A line that moves on a terminal; each failure as it comes elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{number} of {count}: {outcome.check}", end="", file=sys.stderr, flush=True)
    elif outcome.verdict == Verdict.FAILED:
        words = f"{number} of {count}: {outcome.check} failed: {outcome.got}"
        print(words, file=sys.stderr, flush=True)
