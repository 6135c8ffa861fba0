"""`python -m torch_outboard tune`: measures which way is better and keeps what was found."""

from __future__ import annotations

import argparse

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import torch_outboard
from torch_outboard import way_ranges, way_tuning
from torch_outboard.representative_calls import families
from torch_outboard.way_ranges import Tuning


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
    torch.get_device_module(device).init()
    if options.forget:
        file = way_ranges.path(device.index)
        if file is not None:
            file.unlink(missing_ok=True)
        console.print(f"{device} has the default ways again, from the next process on")
        return 0
    columns = (
        TextColumn("tuning {task.fields[device]}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    try:
        calls = families()
        chosen = {name: calls[name] for name in calls if name in (options.family or calls)}
        steps = len(way_tuning.SIZES) * sum(map(len, chosen.values())) + 1
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("", total=steps, device=device)

            def say(what: str) -> None:
                progress.update(task, description=what, advance=1)

            tuning = way_tuning.tune(device, only=options.family, say=say)
    except ValueError as error:
        console.print(str(error))
        return 1
    file = way_tuning.keep(device, tuning)
    console.print(table(tuning))
    console.print(
        f"written to {file}" if file else "not kept: OUTBOARD_CACHE_DIR is empty", soft_wrap=True
    )
    return 0


def table(tuning: Tuning) -> Table:
    """Ratios of the families, in the order of sizes, and what `auto` makes of them."""
    result = Table(title=f"{tuning.device}: device over host (worst call), by elements")
    sizes = sorted({int(size) for ratios in tuning.ratios.values() for size in ratios})
    result.add_column("family")
    for size in sizes:
        result.add_column(f"{size:,}", justify="right")
    result.add_column("auto")
    for family, ratios in tuning.ratios.items():
        if family in tuning.ranges:
            spans = [
                f"{first:,} and more" if end is None else f"{first:,} to {end:,}"
                for first, end in tuning.ranges[family]
            ]
            words = "device for " + ", ".join(spans) if spans else "host"
        else:
            words = "default"
        cells = [f"{ratios[str(size)]:.2f}" if str(size) in ratios else "" for size in sizes]
        result.add_row(family, *cells, words)
    return result
