"""The command `trace`: runs a program and shows what ran where, and what it waited for.

python -m torch_outboard trace train.py --epochs 1
python -m torch_outboard trace --page trace.html --chrome trace.json train.py
python -m torch_outboard trace --calls train.py
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from torch_outboard.dispatch import fallback
from torch_outboard.inspection.program_summary import ProgramSummary
from torch_outboard.inspection.tracing import trace
from torch_outboard.loading.user_code import run_program
from torch_outboard.state import state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the tables to a file, not the terminal"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write a page of HTML")
    parser.add_argument(
        "--chrome",
        type=Path,
        metavar="FILE",
        help="also write the profiler's trace, for https://ui.perfetto.dev",
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="list every call with its dispatch keys and nested calls, not a summary",
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="a Python program and its arguments"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the program like `python program ...` and prints the trace; returns its exit status."""
    problem = _problem(options)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    with _profile(options.chrome):
        if options.calls:
            with trace() as calls:
                code = _status(options.program)
            tables = str(calls)
        else:
            begin = time.perf_counter()
            with fallback.report(call_sites="waits") as report:
                code = _status(options.program)
            summary = ProgramSummary(report, time.perf_counter() - begin)
            tables = str(summary)
            if options.page is not None:
                options.page.write_text(summary.page(), encoding="utf-8")
    if options.output is None:
        print(tables)
    else:
        options.output.write_text(f"{tables}\n", encoding="utf-8")
    return code


def _status(program: list[str]) -> int:
    """Runs the program; an error or Ctrl-C is printed, so that the trace is shown all the same."""
    try:
        return run_program(program)
    except (Exception, KeyboardInterrupt) as error:
        traceback.print_exc()
        return 130 if isinstance(error, KeyboardInterrupt) else 1


def _problem(options: argparse.Namespace) -> str | None:
    if not options.program:
        return "trace needs a program: trace train.py --epochs 1"
    if not Path(options.program[0]).is_file():
        return f"there is no program '{options.program[0]}'"
    if options.calls and options.page is not None:
        return "--page shows the summary, and --calls lists calls instead; leave one of them out"
    for path in (options.output, options.page, options.chrome):
        if path is not None and not path.absolute().parent.is_dir():
            return f"{path} cannot be written: there is no folder '{path.parent}'"
    return None


@contextmanager
def _profile(path: Path | None) -> Iterator[None]:
    """Profiles the block and writes its Chrome trace to `path`, if there is one."""
    if path is None:
        yield
        return
    activities = [torch.profiler.ProfilerActivity.CPU]
    if state.name:
        activities.append(torch.profiler.ProfilerActivity.PrivateUse1)
    with torch.profiler.profile(activities=activities) as profile:
        yield
    profile.export_chrome_trace(str(path))
