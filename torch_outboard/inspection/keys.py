"""The dispatch keys that a call meets, and where each of them leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from torch_outboard.inspection.dispatcher import Entry

# At these a call arrives at a kernel that computes, and goes no further.
_BACKENDS = ("CPU", "CUDA", "Meta", "PrivateUse1", "XPU", "MPS", "HPU", "MTIA", "Undefined")


def key_names(keys: torch._C.DispatchKeySet) -> list[str]:
    """The names of the keys in a set, in the order in which a call meets them."""
    names = []
    while (first := keys.highestPriorityTypeId()) != torch._C.DispatchKey.Undefined:
        names.append(str(first).rpartition(".")[2])
        keys = keys & torch._C._dispatch_keyset_full_after(first)
    return names


def keys_of(tensor: torch.Tensor) -> list[str]:
    """The keys of a call with such a tensor, as the thread's modes are now."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    return key_names((torch._C._dispatch_keys(tensor) | included) - excluded)


def is_backend(key: str) -> bool:
    """Whether kernels of a key compute: `"PrivateUse1"`, `"SparsePrivateUse1"` and so on."""
    layouts = ("", "Sparse", "SparseCsr", "Quantized", "NestedTensor")
    return any(key == layout + backend for layout in layouts for backend in _BACKENDS)


def stops(entry: Entry) -> bool:
    """Whether a call that comes here goes on by calls of other operators, or not at all.

    Kernels of autograd, autocast and other modes hand a call on to the next key.
    """
    return is_backend(entry.key) or entry.origin in ("math kernel", "default backend kernel")


def path(keys: Iterable[str], entries: Mapping[str, Entry]) -> list[Entry]:
    """What a call with these keys meets, one after the other: those that fall through included."""
    met = []
    for key in keys:
        entry = entries.get(key)
        if entry is None:
            continue
        met.append(entry)
        if not entry.fallthrough and stops(entry):
            break
    return met
