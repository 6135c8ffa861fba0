"""`python -m torch_outboard explain aten::add.Tensor`: the kernel of a call, where, and why.

python -m torch_outboard explain aten::add.Tensor --dtype float16 --under autocast
python -m torch_outboard explain aten::mm --layout csr --library libmykernels.so
"""

from __future__ import annotations

import argparse
import sys

import torch

from torch_outboard.commands.user_code import add_library_argument, load_extensions
from torch_outboard.dispatch import dispatcher, fallback
from torch_outboard.inspection.explanation import LAYOUTS, MODES, explain
from torch_outboard.state import state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", help="an overload, such as aten::add.Tensor")
    parser.add_argument("--device", type=int, default=0, help="index of the device (default: 0)")
    parser.add_argument("--dtype", default="float32", help="of the tensors (default: float32)")
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
    add_library_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the explanation; 1 if the operator does not exist or the tensor is impossible."""
    dtype = getattr(torch, options.dtype.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        print(f"'{options.dtype}' is no dtype; write it as in float32", file=sys.stderr)
        return 1
    try:
        load_extensions(options.library)
        with fallback.policy(copied="allow"):
            dense = torch.ones(2, 2, device=torch.device(state.name, options.device), dtype=dtype)
            x = LAYOUTS[options.layout](dense)
        print(explain(dispatcher.qualified(options.operator), x, options.under))
    except (ValueError, RuntimeError) as error:
        print(str(error).partition("\nException raised from")[0], file=sys.stderr)
        return 1
    return 0
