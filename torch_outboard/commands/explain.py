"""`python -m torch_outboard explain aten::add.Tensor`: the kernel of a call, where, and why.

python -m torch_outboard explain aten::add.Tensor --dtype float16 --under autocast
python -m torch_outboard explain aten::mm --layout csr --library libmykernels.so
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.columns import columns
from torch_outboard.commands.devices import dtype_named
from torch_outboard.dispatch import dispatcher, fallback
from torch_outboard.inspection.operator_list import Kernel, kernels, load_kernels
from torch_outboard.loading.user_code import add_library_argument, load_extensions
from torch_outboard.state import state

# Layouts of the first argument, with the conversion of a dense tensor.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "strided": lambda x: x,
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "bsr": lambda x: x.to_sparse_bsr((1, 1)),
    "nested": lambda x: torch.nested.nested_tensor(list(x), layout=torch.strided),
}
# Modes around a call: each wraps a function of a tensor.
MODES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "autocast": lambda call: torch.autocast(state.name)(call),
    "no_grad": lambda call: torch.no_grad()(call),
    "inference": lambda call: torch.inference_mode()(lambda x: call(torch.empty_like(x))),
    "vmap": torch.func.vmap,
    "grad": lambda call: torch.func.grad(lambda x: call(x).sum()),
    "functionalize": torch.func.functionalize,
}
# Purpose of kernels at keys that are not a device's, by prefix of the key's name.
_AT_KEYS = {
    "Autocast": "casts arguments",
    "Autograd": "records the derivative",
    "ADInplaceOrView": "counts versions, or makes a view",
    "BackendSelect": "chooses by the argument `device`",
    "FuncTorch": "a transform of torch.func",
    "Functionalize": "turns writes into new tensors",
    "Python": "a mode or a subclass in Python",
}


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
    try:
        dtype = dtype_named(options.dtype)
        load_extensions(options.library)
        with fallback.policy(copied="allow"):
            dense = torch.ones(2, 2, device=torch.device(state.name, options.device), dtype=dtype)
            x = LAYOUTS[options.layout](dense)
        print(explain(dispatcher.qualified(options.operator), x, options.under))
    except (ValueError, RuntimeError) as error:
        print(str(error).partition("\nException raised from")[0], file=sys.stderr)
        return 1
    return 0


def explain(name: str, x: torch.Tensor, modes: Sequence[str] = ()) -> str:
    """Tables of the keys and kernels of a call with first tensor `x`; nothing is called.

    Args:
        name: `"aten::add.Tensor"`.
        modes: names of MODES, outermost first.

    Raises:
        ValueError: if there is no such overload.
        RuntimeError: if `x` cannot be used under these modes.
    """
    load_kernels()
    schema = dispatcher.schema_of(name)
    if schema is None:
        raise ValueError(f"there is no overload '{name}'; `operators` lists them")
    path = dispatcher.path(_keys_of_call(x, modes), dispatcher.entries(name))
    met = [(entry.key, _what(entry), *dispatcher.origin(entry.location)) for entry in path]
    parts = [
        f"{schema}\non {x.device}, {str(x.dtype).removeprefix('torch.')}",
        columns([("key", "what", "by", "file"), *met]),
    ]
    if not (path and path[-1].composite):
        index = x.device.index or 0
        stopped = bool(path) and dispatcher.stops(path[-1])
        asked = kernels(name, index, x.dtype, path[-1].key) if stopped else []
        parts.append(columns([("kernel", "by", "runs", "file"), *_answers(asked)]))
        runs = next((kernel.what for kernel in asked if not kernel.skipped), "")
        placed = "device"
        if runs.endswith("host kernel"):
            placed = "host" if _C.shares_host_memory(index) else "copied"
        policy = "" if placed == "device" else f"; policy '{fallback.policies()[placed]}'"
        parts += [f"Placement: {placed}{policy}"] if runs else []
    return "\n\n".join(parts)


def _keys_of_call(x: torch.Tensor, modes: Sequence[str]) -> list[str]:
    met: list[str] = []

    def call(y: torch.Tensor) -> torch.Tensor:
        met.extend(dispatcher.keys_of(y))
        return y

    wrapped: Callable[..., Any] = call
    for mode in reversed(modes):
        wrapped = MODES[mode](wrapped)
    with fallback.policy(copied="allow"):
        wrapped(x)
    return met


def _what(entry: dispatcher.Entry) -> str:
    if entry.fallthrough:
        return "falls through"
    if entry.composite:
        derivatives = ", with their derivatives" if entry.origin == "math kernel" else ""
        return f"composite: calls other operators{derivatives}"
    if dispatcher.is_backend(entry.key):
        return "computes"
    return next((what for start, what in _AT_KEYS.items() if entry.key.startswith(start)), "")


def _answers(asked: Sequence[Kernel]) -> Iterator[tuple[str, str, str, str]]:
    """Table rows, one per kernel: whether and why it runs the call."""
    answer = "yes"
    for k in asked:
        what = f"{k.what} {k.family}".strip()
        yield what, k.by, f"no: {k.skipped}" if k.skipped else answer, k.file
        answer = answer if k.skipped else "if those above decline"
    if answer == "yes":
        yield "none", "", "the call raises NotImplementedError", ""
