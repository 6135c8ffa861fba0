"""The dispatch keys of a call, in order, and the kernels at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from torch_outboard.dispatch.dispatcher import Entry

# Backends and layouts whose keys have kernels that compute, where dispatch ends.
_BACKENDS = ("CPU", "CUDA", "Meta", "PrivateUse1", "XPU", "MPS", "HPU", "MTIA", "Undefined")
_LAYOUTS = ("", "Sparse", "SparseCsr", "Quantized", "NestedTensor")


def keys_of(tensor: torch.Tensor) -> list[str]:
    """The dispatch keys of a call with a tensor under the thread's modes, in dispatch order."""
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
    """Whether dispatch ends at an entry: its kernel computes, or calls other operators.

    Kernels of autograd, autocast and other modes call the next key.
    """
    return not entry.fallthrough and (is_backend(entry.key) or entry.composite)


def path(keys: Iterable[str], entries: Mapping[str, Entry]) -> list[Entry]:
    """The entries that a call with these keys visits, in order, fallthroughs included."""
    met = []
    for key in keys:
        if entry := entries.get(key):
            met.append(entry)
            if stops(entry):
                break
    return met
