"""The path of a call: through dispatch keys, the router, and to a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from torch_outboard import _C
from torch_outboard.dispatch import fallback, placement
from torch_outboard.dispatch.registrations import notice
from torch_outboard.inspection import dispatcher, keys
from torch_outboard.inspection.origins import brought_by, shortened
from torch_outboard.inspection.table_rows import table_rows
from torch_outboard.ops.row import dtype_number

LAYOUTS = {
    "strided": "a dense tensor",
    "coo": "torch.sparse_coo",
    "csr": "torch.sparse_csr",
    "bsr": "torch.sparse_bsr",
    "nested": "torch.nested, strided",
}


@dataclass(frozen=True)
class Step:
    """What a call meets: a dispatch key, or a kernel that the router asks."""

    where: str  # the key, or who brought the kernel
    what: str
    file: str


@dataclass(frozen=True)
class CallPath:
    """What a call of an overload with a tensor meets."""

    schema: str
    keys: list[Step]
    router: list[Step]  # in the order in which it asks; empty where the call does not come to it


def _autocast(capture: Callable[[torch.Tensor], None], x: torch.Tensor) -> None:
    with torch.autocast(x.device.type):
        capture(x)


def _no_grad(capture: Callable[[torch.Tensor], None], x: torch.Tensor) -> None:
    with torch.no_grad():
        capture(x)


def _inference(capture: Callable[[torch.Tensor], None], x: torch.Tensor) -> None:
    with torch.inference_mode():
        capture(torch.empty_like(x))


def _transformed(
    transform: Callable[[Callable[[torch.Tensor], torch.Tensor]], Callable[..., object]],
) -> Callable[[Callable[[torch.Tensor], None], torch.Tensor], None]:
    def run(capture: Callable[[torch.Tensor], None], x: torch.Tensor) -> None:
        def function(y: torch.Tensor) -> torch.Tensor:
            capture(y)
            return y.sum()

        transform(function)(x)

    return run


# What a call may run under: what it takes is a function of a tensor, and a tensor.
MODES = {
    "autocast": _autocast,
    "no_grad": _no_grad,
    "inference": _inference,
    "vmap": _transformed(torch.func.vmap),
    "grad": _transformed(torch.func.grad),
    "functionalize": _transformed(torch.func.functionalize),
}


def example(device: torch.device, dtype: torch.dtype, layout: str = "strided") -> torch.Tensor:
    """A tensor of a layout of LAYOUTS, as argument of a call.

    Raises:
        RuntimeError: if there are no such tensors.
    """
    dense = torch.ones(2, 2, device=device, dtype=dtype)
    if layout == "coo":
        return dense.to_sparse()
    if layout == "csr":
        return dense.to_sparse_csr()
    if layout == "bsr":
        return dense.to_sparse_bsr((1, 1))
    if layout == "nested":
        return torch.nested.nested_tensor([dense[0], dense[1]], layout=torch.strided)
    return dense


def call_path(name: str, x: torch.Tensor, modes: Sequence[str] = ()) -> CallPath:
    """The path of a call of an overload whose first tensor is `x`.

    Args:
        name: `"aten::add.Tensor"`.
        modes: of MODES, the outer ones first.

    Raises:
        ValueError: if there is no such overload.
    """
    _C.finish_registrations()
    notice()
    schema = dispatcher.schema_of(name)
    if schema is None:
        raise ValueError(f"there is no overload '{name}'; `operators` lists them")
    entries = dispatcher.entries(name)
    met: list[str] = []
    _under(modes, lambda y: met.extend(keys.keys_of(y)))(x)
    path = keys.path(met, entries)
    steps = [_key_step(name, entry) for entry in path]
    if not path or not keys.stops(path[-1]):
        steps.append(Step("-", "no kernel: the call raises NotImplementedError", ""))
        return CallPath(schema, steps, [])
    last = path[-1]
    routed = brought_by(last.place) == "kit" and keys.is_backend(last.key)
    routed = routed and _asks_router(name, last)
    return CallPath(schema, steps, _asked(name, x) if routed else [])


def _under(
    modes: Sequence[str], capture: Callable[[torch.Tensor], None]
) -> Callable[[torch.Tensor], None]:
    for mode in reversed(modes):
        capture = partial(MODES[mode], capture)
    return capture


def _asks_router(name: str, entry: dispatcher.Entry) -> bool:
    return entry.origin == "backend fallback" or _C.router_kernels(name) is not None


def _key_step(name: str, entry: dispatcher.Entry) -> Step:
    by = brought_by(entry.place)
    what = _what(name, entry)
    if by == "extension":
        what += ", of an extension"
    return Step(entry.key, what, shortened(entry.place))


# What kernels of other keys than those of devices do, by the start of the key's name.
_MODES = {
    "Autocast": "casts arguments",
    "Autograd": "records the derivative",
    "ADInplaceOrView": "counts versions, or makes a view",
    "BackendSelect": "chooses by the argument `device`",
    "FuncTorch": "a transform of torch.func",
    "Functionalize": "turns writes into new tensors",
    "Python": "a mode or a subclass in Python",
}


def _what(name: str, entry: dispatcher.Entry) -> str:
    if entry.fallthrough:
        return "falls through"
    if entry.origin == "math kernel":
        return "composite: calls other operators, with their derivatives"
    if entry.origin == "default backend kernel":
        return "composite: calls other operators"
    if keys.is_backend(entry.key):
        if brought_by(entry.place) != "kit":
            return entry.origin
        if not _asks_router(name, entry):
            return "the kit's own code"
        found = dispatcher.registration(name, entry.key)
        boxed = found is None or found.boxed_only
        return "the kit's router" if boxed else "typed host kernel, or the router"
    return next((w for start, w in _MODES.items() if entry.key.startswith(start)), entry.origin)


def _asked(name: str, x: torch.Tensor) -> list[Step]:
    """What the router asks for a call with a dense tensor `x`, in that order, and the host."""
    index = x.device.index or 0
    shared = _C.shares_host_memory(index)
    steps = []
    rows = iter(table_rows().get(name, ()))
    for source, placed, family, device, dtypes, separate_only, origin in (
        _C.router_kernels(name) or ()
    ):
        row = next(rows, None) if source == "kit" and family is not None else None
        what = f"device kernel, engine {row.engine}" if row else f"kernel ({placed})"
        if family is not None and row is None:
            what = f"kernel of the family {family}"
        if x.layout != torch.strided and source == "kit":
            what += "; not for this layout"
        elif device not in (-1, index) or (separate_only and shared):
            what += "; not for this device"
        elif not _serves(row.dtypes if row and row.dtypes else dtypes, x.dtype):
            what += f"; not for {str(x.dtype).removeprefix('torch.')}"
        elif row is not None:
            what += _when(index)
        steps.append(Step(source, what, row.file if row else shortened(origin)))
    return [*steps, _host(name, x, "host" if shared else "copied")]


def _serves(dtypes: int, dtype: torch.dtype) -> bool:
    return bool(dtypes >> dtype_number(dtype) & 1)


def _when(index: int) -> str:
    """When the kit's device kernels run on a device."""
    if not _C.runs_code(index):
        return "; the device runs no code"
    setting = placement.get_placement(index)
    return "" if placement.runs_on_device(index) else f"; not by the placement '{setting}'"


def _host(name: str, x: torch.Tensor, placed: str) -> Step:
    """The host's kernel, which is the last that is asked."""
    own = next((k for k in keys.keys_of(x) if keys.is_backend(k)), "PrivateUse1")
    key = own.replace("PrivateUse1", "CPU")
    entry = dispatcher.entries(name).get(key)
    if entry is None:
        return Step("host", "no CPU kernel: the call raises NotImplementedError", "")
    where = "the device's memory" if placed == "host" else "copies"
    policy = fallback.policies()[placed]
    return Step("host", f"{key} kernel on {where}; policy '{policy}'", shortened(entry.place))
