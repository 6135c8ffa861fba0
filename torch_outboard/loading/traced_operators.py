"""How programs are traced that call composite operators of which the kit has kernels of its own."""

from __future__ import annotations

from typing import Any

import torch

_KEYS = torch._C.DispatchKey


def trace_decomposition() -> None:
    """Keeps `aten::lstm.input` composed for whoever traces it, as on devices without a kernel.

    Tracing asks the dispatcher's keys, and takes what has a kernel for an operator to be kept.
    Where layers run is not known before the traced program does.
    """
    lstm = torch.ops.aten.lstm.input

    def as_without_kernel(*arguments: Any, **rest: Any) -> Any:
        # Exporting puts functions of its own at the keys of devices that have none, such as this.
        other = lstm.py_kernels.get(_KEYS.AutogradPrivateUse2)
        return (other or lstm.decompose)(*arguments, **rest)

    for key, kernel in (
        (_KEYS.AutogradPrivateUse1, as_without_kernel),
        (_KEYS.PrivateUse1, lstm.decompose),
    ):
        if key not in lstm.py_kernels:
            lstm.py_impl(key)(kernel)
