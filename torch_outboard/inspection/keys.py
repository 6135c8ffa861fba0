"""The dispatch keys that a call meets, and where each of them leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from torch_outboard.dispatch.dispatcher import Entry

# At these a call arrives at a kernel that computes, and goes no further.
_BACKENDS = ("CPU", "CUDA", "Meta", "PrivateUse1", "XPU", "MPS", "HPU", "MTIA", "Undefined")
_LAYOUTS = ("", "Sparse", "SparseCsr", "Quantized", "NestedTensor")


def keys_of(tensor: torch.Tensor) -> list[str]:
    """The keys of a call with such a tensor under the thread's modes, in the order of the call."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    keys = (torch._C._dispatch_keys(tensor) | included) - excluded
    names = []
    while (first := keys.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        names.append(str(first).rpartition(".")[2])
        keys = keys & torch._C._dispatch_keyset_full_after(first)
    return names


def is_backend(key: str) -> bool:
    """Whether kernels of a key compute: `"PrivateUse1"`, `"SparsePrivateUse1"` and so on."""
    return any(key == layout + backend for layout in _LAYOUTS for backend in _BACKENDS)


def stops(entry: Entry) -> bool:
    """Whether a call that comes here goes on by calls of other operators, or not at all.

    Kernels of autograd, autocast and other modes call the next key.
    """
    return not entry.fallthrough and (is_backend(entry.key) or entry.composite)


def path(keys: Iterable[str], entries: Mapping[str, Entry]) -> list[Entry]:
    """The kernels that a call with these keys passes in turn, with those that fall through."""
    met = []
    for key in keys:
        if entry := entries.get(key):
            met.append(entry)
            if stops(entry):
                break
    return met
