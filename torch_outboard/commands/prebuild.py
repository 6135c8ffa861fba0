"""`python -m torch_outboard prebuild train.py`: runs a program and caches what it compiles."""

from __future__ import annotations

import argparse
import sys

import torch

import torch_outboard
from torch_outboard import _C
from torch_outboard.commands.user_code import add_program_argument, program_problem, run_program
from torch_outboard.dispatch import placement
from torch_outboard.ops import program_cache
from torch_outboard.settings import CACHE_FOLDER_VARIABLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    parser.add_argument(
        "--placement",
        choices=placement.PLACEMENTS,
        help="placement of the operators (default: as the environment says)",
    )
    add_program_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the numbers of compiled and of already cached programs; returns the exit status of the
    user's program."""
    device = torch.device(torch_outboard.device_name(), options.device)
    if problem := program_problem(options.program) or _problem(device):
        print(problem, file=sys.stderr)
        return 1
    before = _C.program_counts()
    if options.placement is not None:
        placement.set_placement(options.placement)
    code = run_program(options.program)
    _C.flush_disk_cache()
    built, loaded, _ = (now - then for now, then in zip(_C.program_counts(), before, strict=True))
    print(f"{built} programs compiled, {loaded} were there, in {program_cache.folder()}")
    if not built + loaded:
        print(
            f"the program launched no device kernel (placement of {device}: "
            f"{placement.get_placement(device)}); with --placement device it takes all there are"
        )
    return code


def _problem(device: torch.device) -> str | None:
    """The reason why nothing can be compiled or cached; None if there is none."""
    if not _C.runs_code(device.index):
        return f"{device} runs no code, so there is nothing to compile"
    if not (folder := program_cache.folder()):
        return f"nothing would be kept: {CACHE_FOLDER_VARIABLE} is empty"
    if problem := _C.private_folder_problem(folder, program_cache.shared()):
        return program_cache.remedy(problem)
    _C.load_device_kernels()
    failure = _C.compiler_failure(device.index)
    return None if failure is None else f"{device} compiles nothing: {failure}"
