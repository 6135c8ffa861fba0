"""`python -m torch_outboard prebuild`: compiles kernels ahead of their use.

Without `--record` the command calls every operator of the tables for each dtype, on contiguous and
on strided tensors, until its device kernel has run; `out=` forms share the programs of other forms.
With `--record` it runs a user's program unchanged and caches exactly what that program compiles.

python -m torch_outboard prebuild --dtype float32 --dtype bfloat16
python -m torch_outboard prebuild --family reductions
python -m torch_outboard prebuild --record train.py --epochs 1
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import torch_outboard
from torch_outboard import _C
from torch_outboard.commands.devices import dtype_named
from torch_outboard.dispatch import fallback, placement
from torch_outboard.dispatch.dispatcher import overload_of
from torch_outboard.inspection.sample_arguments import attempts
from torch_outboard.loading.user_code import run_program
from torch_outboard.ops import program_cache, tables

# Exceptions of an operator for unsuitable arguments; the next attempt may fit.
REFUSED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


# Family and overload of copies within a device, which have no definition in the tables.
COPY = "copy"
COPIES = "aten::_copy_from"
# Number of jobs after which all programs are written to disk, so that a stopped run keeps them.
SAVED_TOGETHER = 32


@dataclass(frozen=True)
class Job:
    """A call of an overload, or conversions for the copy family."""

    family: str
    overload: str
    dtype: torch.dtype
    strided: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    parser.add_argument(
        "--dtype", action="append", default=[], help="as in torch.<dtype> (default: float32)"
    )
    parser.add_argument("--family", action="append", default=[], help="only this family of kernels")
    parser.add_argument(
        "--operator", action="append", default=[], help="only this overload, as in aten::add.Tensor"
    )
    parser.add_argument(
        "--placement",
        choices=placement.PLACEMENTS,
        default="",
        help="placement of the operators (default: device; with --record: OUTBOARD_PLACEMENT)",
    )
    parser.add_argument(
        "--record",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="a Python program and its arguments: run it and cache what it compiles",
    )


def run(options: argparse.Namespace) -> int:
    """Compiles, and prints the numbers of compiled and of already cached programs."""
    console = Console()
    device = torch.device(torch_outboard.device_name(), options.device)
    if not _C.runs_code(device.index):
        console.print(f"{device} runs no kernels, so there is nothing to compile")
        return 1
    if not program_cache.folder():
        console.print(
            "kernels would not be cached: OUTBOARD_CACHE_DIR is empty; set it to a folder"
        )
        return 1
    if problem := _C.private_folder_problem(program_cache.folder(), program_cache.shared()):
        console.print(program_cache.remedy(problem), markup=False)
        return 1
    _C.load_device_kernels()
    if (failure := _C.compiler_failure(device.index)) is not None:
        console.print(f"{device} compiles nothing:", failure, markup=False, soft_wrap=True)
        return 1
    before = _C.program_counts()
    if options.record is not None:
        if not options.record:
            raise SystemExit("prebuild --record needs a program: --record train.py --epochs 1")
        if options.placement:
            placement.set_placement(options.placement)
        code = run_program(options.record)
    else:
        try:
            dtypes = [dtype_named(name) for name in options.dtype or ["float32"]]
            jobs = jobs_of(dtypes, options.family, options.operator)
        except ValueError as error:
            console.print(str(error))
            return 1
        with placement.use(options.placement or "device", device), fallback.policy(copied="allow"):
            launched = build(jobs, device, console)
        console.print(f"{len(launched)} of {len(jobs)} calls launched a device kernel")
        if missed := {job.overload for job in jobs} - {job.overload for job in launched}:
            console.print(f"never launched: {', '.join(sorted(missed))}", soft_wrap=True)
        code = 0
    _C.flush_disk_cache()
    built, loaded, _ = (now - then for now, then in zip(_C.program_counts(), before, strict=True))
    console.print(
        f"{built} programs compiled, {loaded} already cached, in {program_cache.folder()}",
        soft_wrap=True,
    )
    if options.record is not None and not built + loaded:
        console.print(
            f"the program launched no device kernel (placement of {device}: "
            f"{placement.get_placement(device)}); --placement device selects device kernels"
        )
    return code


def jobs_of(
    dtypes: list[torch.dtype], families: Collection[str] = (), operators: Collection[str] = ()
) -> list[Job]:
    """The calls of all overloads of the tables, or of the named ones; each overload once.

    Raises:
        ValueError: if a named family or overload is not in the tables.
    """
    overloads = {
        name: family
        for name, family in tables.families().items()
        if not any(argument.is_out for argument in overload_of(name)._schema.arguments)
    }
    overloads[COPIES] = COPY
    _check_names("family", families, overloads.values())
    _check_names("operator", operators, overloads)
    return [
        Job(family, overload, dtype, strided)
        for dtype in dtypes
        for overload, family in overloads.items()
        for strided in (False, True)
        if (not families or family in families) and (not operators or overload in operators)
    ]


def _check_names(kind: str, wanted: Collection[str], known: Iterable[str]) -> None:
    if unknown := set(wanted) - set(known):
        close = sorted(set(known)) if kind == "family" else ["those of the operator tables"]
        raise ValueError(f"no {kind} {', '.join(sorted(unknown))}; there are {', '.join(close)}")


def build(jobs: list[Job], device: torch.device, console: Console) -> list[Job]:
    """Runs the jobs, with a progress bar; returns those for which a device kernel ran."""
    launched = []
    start = _C.program_counts()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[compiled]} compiled, {task.fields[loaded]} already cached"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(jobs), compiled=0, loaded=0)
        for number, job in enumerate(jobs):
            progress.update(task, description=job.family)
            if number % SAVED_TOGETHER == SAVED_TOGETHER - 1:
                _C.flush_disk_cache()
            if (_convert if job.family == COPY else _call)(job, device):
                launched.append(job)
            built, loaded, _ = _C.program_counts()
            progress.update(task, advance=1, compiled=built - start[0], loaded=loaded - start[1])
        progress.update(task, description="writing")
        _C.flush_disk_cache()
        progress.update(task, description="all families")
    return launched


def _call(job: Job, device: torch.device) -> bool:
    """Calls an overload until its device kernel has run; returns whether it has."""
    operator = overload_of(job.overload)
    for positional, keywords in attempts(job.overload, job.dtype, device, job.strided):
        with fallback.report() as report:
            try:
                operator(*positional, **keywords)
            except REFUSED:
                continue
        if any(row.placement == "device" and row.op == job.overload for row in report.rows):
            return True
    return False


def _convert(job: Job, device: torch.device) -> bool:
    """Converts a tensor to common dtypes; returns whether a device kernel ran."""
    x = torch.ones(64, 64, dtype=job.dtype).to(device)
    x = x.t() if job.strided else x
    with fallback.report() as report:
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool):
            x.to(dtype).contiguous()
        x.contiguous()
    return any(row.placement == "device" for row in report.rows)
