"""`python -m torch_outboard where aten::add.Tensor`: the path of a call, with file names.

python -m torch_outboard where aten::add.Tensor --dtype float16 --under autocast
python -m torch_outboard where aten::linear --call
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import torch

from torch_outboard.columns import columns
from torch_outboard.commands import extensions
from torch_outboard.commands.sample_arguments import attempts
from torch_outboard.dispatch import fallback
from torch_outboard.inspection.call_path import LAYOUTS, MODES, Step, call_path, example
from torch_outboard.inspection.tracing import trace
from torch_outboard.state import state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", help="an overload, as in aten::add.Tensor")
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    parser.add_argument("--dtype", default="float32", help="as in torch.<dtype> (default: float32)")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="strided", help="of the tensors (default: strided)"
    )
    parser.add_argument(
        "--under",
        action="append",
        choices=MODES,
        default=[],
        help="what the call runs under; several nest, the first outermost",
    )
    parser.add_argument(
        "--call", action="store_true", help="call it, too, and show what it called in turn"
    )
    extensions.add_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the steps; 1 if there is no such operator or no such tensor."""
    name = options.operator if "::" in options.operator else f"aten::{options.operator}"
    name = name.removesuffix(".default")
    device = torch.device(state.name, options.device)
    dtype = getattr(torch, options.dtype.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        print(f"'{options.dtype}' is no dtype; write it as in float32", file=sys.stderr)
        return 1
    try:
        extensions.load(options.library)
        with fallback.policy(copied="allow"):
            path = call_path(name, example(device, dtype, options.layout), options.under)
    except (ValueError, RuntimeError, extensions.NotLoaded) as error:
        print(str(error).partition("\nException raised from")[0], file=sys.stderr)
        return 1
    print(f"{path.schema}\non {device}, {options.dtype}, {LAYOUTS[options.layout]}\n")
    print(_table("key", path.keys))
    if path.router:
        print("\nThe router asks, until one takes the call:\n")
        print(_table("from", path.router))
    if options.call:
        return _call(name, dtype, device)
    return 0


def _table(title: str, steps: Iterable[Step]) -> str:
    return columns([(title, "what", "file"), *((s.where, s.what, s.file) for s in steps)])


def _call(name: str, dtype: torch.dtype, device: torch.device) -> int:
    """Calls it with arguments made up for its schema, until it takes some; 1 if it takes none."""
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    function = getattr(getattr(getattr(torch.ops, namespace), operator), overload or "default")
    reason = "no arguments could be made up for it"
    for positional, keywords in attempts(name, dtype, device, False):
        try:
            with fallback.policy(copied="allow"), trace() as traced:
                function(*positional, **keywords)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            continue
        print(f"\nCalled with arguments made up for it:\n\n{traced}")
        return 0
    print(f"\nNo call of {name} worked: {reason}", file=sys.stderr)
    return 1
