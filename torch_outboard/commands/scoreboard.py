"""`python -m torch_outboard scoreboard`: how much of PyTorch is right on the device.

PyTorch's databases of operators, modules and optimizers run on CPU and on the device, each entry in
an isolated process, and the results are compared. Exit status 1 means that something which CPU can
do fails, crashes or hangs, and no exclusion gives a reason.

python -m torch_outboard scoreboard --jobs 2 --resume               # everything: hours
python -m torch_outboard scoreboard --suite operators --dtype float32 --driver mychip
python -m torch_outboard scoreboard --entry add --entry sum         # in every suite and dtype
python -m torch_outboard scoreboard --pytorch-tests ../pytorch --file test_view_ops
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch_outboard.loading.user_code import add_library_argument
from torch_outboard.scoreboard import coverage, sources
from torch_outboard.scoreboard.answers import known_about
from torch_outboard.scoreboard.exclusions import read_file
from torch_outboard.scoreboard.pytorch_tests.run import JOURNAL as TREE_JOURNAL
from torch_outboard.scoreboard.pytorch_tests.run import Tree
from torch_outboard.scoreboard.pytorch_tests.run import run as run_tree
from torch_outboard.scoreboard.reports import page, relay, results, tables
from torch_outboard.scoreboard.run import JOURNAL, Outcome, Plan
from torch_outboard.scoreboard.run import run as run_plan
from torch_outboard.scoreboard.suites import SUITES
from torch_outboard.scoreboard.worker import Settings

FOLDER = Path("scoreboard-results")
# What PyTorch's own tests import.
NEEDED = ("expecttest", "numpy", "pytest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = __doc__
    where = parser.add_argument_group("what it runs on")
    where.add_argument("--driver", default="", help="name or path (default: OUTBOARD_DRIVER, ocl)")
    where.add_argument(
        "--device", default="", help="default: the driver's; cpu compares CPU with itself"
    )
    where.add_argument("--placement", choices=("auto", "device", "host"), default="")
    where.add_argument(
        "--access", choices=("shared", "separate"), default="", help="memory of the driver host"
    )
    add_library_argument(where)
    which = parser.add_argument_group("what it runs")
    which.add_argument("--suite", action="append", choices=SUITES, help="may be repeated")
    which.add_argument("--without", action="append", choices=SUITES, help="all but this suite")
    which.add_argument("--dtype", action="append", help="such as float32; may be repeated")
    which.add_argument("--entry", action="append", help="such as add; may be repeated")
    which.add_argument("--check", action="append", help="such as out; may be repeated")
    which.add_argument("--samples", type=int, default=0, help="of an entry and check, at most")
    which.add_argument(
        "--turn", default="", metavar="NAME", help="one sample of each operator, by this name"
    )
    which.add_argument("--list", action="store_true", help="show suites, checks and dtypes")
    tree = parser.add_argument_group("PyTorch's own test files")
    tree.add_argument(
        "--pytorch-tests", type=Path, metavar="DIR",
        help="a source tree of PyTorch: run its test files, unchanged, and no suite",
    )  # fmt: skip
    tree.add_argument(
        "--file", action="append", help="such as test_view_ops; may be repeated (default: many)"
    )
    tree.add_argument("--match", default="", help="tests whose name this expression finds")
    tree.add_argument("--limit", type=int, default=0, help="the first tests of a file, at most")
    how = parser.add_argument_group("how")
    how.add_argument("--jobs", type=int, default=1, help="processes at once (default: 1)")
    how.add_argument("--timeout", type=float, default=300, help="seconds for one entry")
    how.add_argument(
        "--resume", action="store_true", help="continue the last run; keep what passed"
    )
    how.add_argument(
        "--exclusions", type=Path, action="append", default=[], metavar="FILE",
        help="TOML with checks that may fail, each with a reason and an owner; may be repeated",
    )  # fmt: skip
    how.add_argument(
        "--output", type=Path, metavar="DIR", help=f"of the results (default: {FOLDER}/<driver>)"
    )
    how.add_argument(
        "--against", type=Path, metavar="FILE",
        help="results.json to compare with (default: of the run before in the same folder)",
    )  # fmt: skip
    how.add_argument(
        "--coverage", action="store_true",
        help="run nothing; say which operators had device kernels, and which ran on the host",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    if options.list:
        return show_suites()
    if problem := missing():
        print(problem, file=sys.stderr)
        return 2
    folder = options.output or FOLDER / stem(options)
    if options.coverage:
        return coverage.show(folder, options.dtype or ())
    try:
        excluded = [str(path) for path in options.exclusions if read_file(path)]
        before = results.read(options.against) if options.against is not None else None
        plan = plan_of(options, folder, excluded)
        if options.pytorch_tests is not None:
            files = tuple(options.file or ())
            tree = Tree(options.pytorch_tests, files, options.match, options.limit)
            outcome = run_tree(plan, tree, show)
            more = known_about(folder / JOURNAL, outcome.sources)
        else:
            outcome = run_plan(plan, show)
            more = known_about(folder / TREE_JOURNAL, outcome.sources)
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    report(options, folder, replace(outcome, answers=[*outcome.answers, *more]), before)
    return int(outcome.failed)


def show(line: str) -> None:
    print(line, flush=True)


def missing() -> str | None:
    """A sentence if a package is not there that PyTorch's tests need."""
    gone = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not gone:
        return None
    return (
        f"The scoreboard runs PyTorch's own tests, which import {', '.join(NEEDED)}; "
        f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not installed. "
        "Run `pip install torch-outboard[scoreboard]`."
    )


def stem(options: argparse.Namespace) -> str:
    """Of the folder: what results depend on beside the sources."""
    driver = sources.driver_in_use(options.driver)
    name = Path(driver).stem.removeprefix("libob_")
    words = [options.device, name, options.placement, options.access]
    return "-".join(word for word in words if word)


def plan_of(options: argparse.Namespace, folder: Path, excluded: Sequence[str]) -> Plan:
    settings = Settings(
        device=options.device,
        driver=options.driver,
        access=options.access,
        placement=options.placement,
        turn=options.turn,
        samples=options.samples,
        checks=tuple(options.check or ()),
        exclusions=tuple(excluded),
        libraries=tuple(options.library),
        strict=sources.is_shipped(options.driver),
    )
    return Plan(
        settings,
        folder,
        tuple(name for name in options.suite or SUITES if name not in (options.without or ())),
        tuple(options.dtype or ()),
        tuple(options.entry or ()),
        options.jobs,
        options.timeout,
        options.resume,
    )


def report(
    options: argparse.Namespace, folder: Path, outcome: Outcome, before: dict[str, object] | None
) -> None:
    """Writes the files, and prints the table."""
    driver = sources.driver_in_use(options.driver)
    # No folders of this machine: results are published.
    driver = Path(driver).stem.removeprefix("libob_")
    device = options.device or driver
    about = results.about(device, driver, options.placement, options.access)
    fingerprint = outcome.sources.split()[-1]
    found = results.of_answers(outcome.answers, about, fingerprint, outcome.started)
    if outcome.saved:
        previous = results.write(folder, found)
        before = before or previous
    changed = results.changes(before, found) if before is not None else None
    print(tables.in_terminal(found, changed))
    if not outcome.saved:
        print(f"{folder} stays as it was: it is about other sources")
        return
    (folder / "results.md").write_text(tables.as_markdown(found, changed))
    (folder / "index.html").write_text(page.page(found, before))
    relay.write(folder, found)
    print(f"results: {folder / results.RESULTS}, results.md, index.html")


def show_suites() -> int:
    for name, suite in SUITES.items():
        print(f"{name}: {suite.words}")
        print(f"    checks: {', '.join(suite.checks)}")
        if suite.dtypes != ("",):
            print(f"    dtypes: {', '.join(suite.dtypes)}")
    return 0
