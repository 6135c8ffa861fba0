"""`python -m torch_outboard tune`: measures products and ways, and keeps what it found."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.filesize import pick_unit_and_suffix
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import torch_outboard
from torch_outboard import _C
from torch_outboard.tuning import (
    product_tuning,
    representative_programs,
    tuning_file,
    way_tuning,
)
from torch_outboard.tuning.product_tuning import Measured
from torch_outboard.tuning.representative_calls import families
from torch_outboard.tuning.tuning_file import Tuning
from torch_outboard.tuning.tuning_journal import Remember, measure_anew

# Between two lines of progress in a log.
LINE_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    parser.add_argument(
        "--family", action="append", default=[], help="measure only this family; repeatable"
    )
    parser.add_argument(
        "--forget", action="store_true", help="remove what was measured and use the defaults"
    )


def run(options: argparse.Namespace) -> int:
    """Tunes one device and prints ratios; 1 if there is nothing to tune."""
    console = Console()
    device = torch.device(torch_outboard.device_name(), options.device)
    if options.forget:
        file = tuning_file.path(device.index)
        if file is not None:
            file.unlink(missing_ok=True)
        tuning_file.journal(device.index).remove()
        console.print(f"{device} has the default ways again, from the next process on")
        return 0
    if not _C.runs_code(device.index):
        console.print(f"{device} runs no code, so it has one way only and nothing to tune")
        return 1
    if (failure := _C.compiler_failure(device.index)) is not None:
        console.print(f"{device} compiles nothing:", failure, markup=False, soft_wrap=True)
        return 1
    journal = tuning_file.journal(device.index)
    if journal.found:
        console.print(
            f"{len(journal.found)} measurements of a run that was stopped are taken up again; "
            "`tune --forget` removes them",
            soft_wrap=True,
        )
    try:
        tuning, products = measure(device, options.family, console, journal.remember)
    except ValueError as error:
        console.print(str(error))
        return 1
    except KeyboardInterrupt:
        console.print("stopped; the next run goes on from here")
        return 130
    if products:
        console.print(product_table(device, products))
    if tuning.times:
        console.print(table(tuning))
        console.print(summary(tuning), soft_wrap=True)
    elif not options.family:
        console.print(
            f"{device} shares no memory with the host, so its own kernels are always taken"
        )
    file = tuning_file.keep(device.index, tuning)
    journal.remove()
    console.print(
        f"written to {file}" if file else "not kept: OUTBOARD_CACHE_DIR is empty", soft_wrap=True
    )
    return 0


class Lines:
    """Progress where the output is no terminal: a line now and then.

    Args:
        device: what is measured.
        total: how many steps there are, about.
        console: where lines go.
        clock: seconds from any start.
    """

    def __init__(
        self,
        device: str,
        total: int,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device, self.total, self.console, self.clock = device, total, console, clock
        self.start = clock()
        self.last = -LINE_SECONDS
        self.done = 0

    def say(self, what: str) -> None:
        """Is told what comes next; prints it if the last line is some time ago."""
        elapsed = self.clock() - self.start
        if elapsed - self.last >= LINE_SECONDS:
            self.last = elapsed
            share = min(self.done / self.total, 1.0)
            self.console.print(
                f"tuning {self.device}: {share:4.0%} after {elapsed:.0f} s, {what}", soft_wrap=True
            )
            self.console.file.flush()
        self.done += 1


def summary(tuning: Tuning) -> str:
    """What `auto` does with programs now, and what it costs them."""
    found = {
        "device": "all programs are best on the device",
        "host": "all programs are best on the host",
        "typical": "measured times do no better than the typical ones",
    }
    words = found.get(str(tuning.beside), f"Python counts for {tuning.beside} us beside a call")
    costs = tuning.costs
    forced = ", ".join(f"{costs[way]:.2f} by {way}" for way in ("device", "host"))
    return (
        f"{words}; the small programs take at most {costs[str(tuning.beside)]:.2f} of the time by "
        f"the better forced way ({forced})"
    )


def measure(
    device: torch.device,
    only: list[str],
    console: Console,
    remember: Remember = measure_anew,
) -> tuple[Tuning, dict[str, Measured]]:
    """Measures families `only`, or products and then all families that have a choice of ways.

    Raises:
        ValueError: if a family does not exist, or has no choice on this device.
    """
    columns = (
        TextColumn("tuning {task.fields[device]}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    calls = families()
    steps = len(way_tuning.SIZES) * sum(len(calls[name]) for name in only or calls if name in calls)
    products: dict[str, Measured] = {}
    tuning = tuning_file.empty(device.index)
    total = steps + product_tuning.steps() + len(representative_programs.PROGRAMS)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total, device=device)
        lines = Lines(str(device), total, console)

        def say(what: str) -> None:
            progress.update(task, description=what, advance=1)
            if not console.is_terminal:
                lines.say(what)

        if not only:
            products = product_tuning.tune(device, say, remember=remember)
        if only or _C.shares_host_memory(device.index):
            tuning = way_tuning.tune(device, only=only, say=say, remember=remember)
    tuning.products = {dtype: list(found.best) for dtype, found in products.items()}
    return tuning, products


def product_table(device: torch.device, products: dict[str, Measured]) -> Table:
    """Speed of matrix products by tile; the best is marked."""
    sizes = ", ".join(f"{dtype} of {found.size}" for dtype, found in products.items())
    result = Table(title=f"{device}: matrix products in 1e9 operations per second ({sizes})")
    result.add_column("rows x vectors, tiles of a work item")
    for dtype in products:
        result.add_column(dtype, justify="right")
    for blocks in dict.fromkeys(blocks for found in products.values() for blocks in found.rates):
        rows, vectors, panels = blocks
        cells = []
        for found in products.values():
            rate = f"{found.rates[blocks]:,.4g}" if blocks in found.rates else ""
            cells.append(f"[bold]{rate} *[/bold]" if blocks == found.best else rate)
        result.add_row(f"{rows} x {vectors}, {panels}", *cells)
    return result


def in_thousands(elements: int) -> str:
    """A size in a few characters: "512", "4 K", "1 M", in powers of 1,024."""
    unit, suffix = pick_unit_and_suffix(elements, ["", "K", "M"], 1024)
    return f"{elements / unit:.4g} {suffix}".rstrip()


def table(tuning: Tuning) -> Table:
    """Device over host of families, each before its operators, by size."""
    result = Table(title=f"{tuning.device}: device over host, by elements")
    sizes = sorted({size for times in tuning.times.values() for size in times})
    result.add_column("family, operators", overflow="fold")
    for size in sizes:
        result.add_column(in_thousands(size), justify="right", no_wrap=True)
    for name, times in tuning.times.items():
        cells = [f"{times[s][0] / times[s][1]:.2f}" if s in times else "" for s in sizes]
        is_operator = "::" in name
        shown = "  " + name.removeprefix("aten::") if is_operator else name
        result.add_row(shown, *cells, style="" if is_operator else "bold")
    return result
