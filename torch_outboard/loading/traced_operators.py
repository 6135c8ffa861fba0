"""Tracing of programs that call composite operators for which the kit has kernels."""

from __future__ import annotations

from typing import Any

import torch

_KEYS = torch._C.DispatchKey


def trace_decomposition() -> None:
    """Decomposes `aten::lstm.input` in traces, as on devices without a kernel.

    Tracing reads the dispatcher's keys and does not decompose an operator with a kernel. The
    placement of layers is not known until the traced program runs.
    """
    lstm = torch.ops.aten.lstm.input

    def as_without_kernel(*arguments: Any, **rest: Any) -> Any:
        # Export registers functions for the keys of devices without kernels, such as this key.
        other = lstm.py_kernels.get(_KEYS.AutogradPrivateUse2)
        return (other or lstm.decompose)(*arguments, **rest)

    for key, kernel in (
        (_KEYS.AutogradPrivateUse1, as_without_kernel),
        (_KEYS.PrivateUse1, lstm.decompose),
    ):
        if key not in lstm.py_kernels:
            lstm.py_impl(key)(kernel)
