"""Kernels of users: one decorator replaces how an operator runs on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

import torch

from torch_outboard import _C
from torch_outboard.devices import DeviceLike, device_index

__all__ = ["Registration", "kernel"]


class Registration:
    """A registered kernel. `remove()`, or leaving a `with` block, takes it back."""

    def __init__(self, name: str, function: Callable, token: object) -> None:
        self.name = name
        self.function = function
        self._token = token

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)

    def remove(self) -> None:
        """The operator runs as before, from the next call on. Doing it twice does nothing."""
        if self._token is not None:
            _C.remove_kernel(self.name, self._token)
            self._token = None

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


def kernel(
    name: str,
    *,
    dtypes: Iterable[torch.dtype] | None = None,
    device: DeviceLike = None,
) -> Callable[[Callable], Registration]:
    """Registers a Python function as the device's kernel of an operator.

    The function takes and returns device tensors, with the arguments of the operator's schema; it
    runs below autograd, and the operator's own derivative stays in force; an operator whose only
    derivative is that of its parts runs in parts, without the kernel, where autograd records. It
    wins over the kit's and the maker's kernels from the next call on; among users' kernels the
    latest wins.

    Args:
        name: the overload, for example `"aten::relu"` or `"aten::add.Tensor"`; without a namespace
            it is of `aten`.
        dtypes: serve only calls whose first tensor argument (or `dtype` argument) has one of these.
        device: serve only calls on this device.

    Raises:
        ValueError: if there is no such operator, or it is one of memory, views and copies, which
            the kit does itself.

    Example::

        @torch_outboard.kernel("aten::relu", dtypes=[torch.float32])
        def relu(x):
            return x.clamp(min=0)
    """
    qualified = (name if "::" in name else f"aten::{name}").removesuffix(".default")
    namespace, _, rest = qualified.partition("::")
    operator, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if packet is None or (overload or "default") not in packet.overloads():
        known = [] if packet is None else packet.overloads()
        raise ValueError(
            f"operator '{qualified}' does not exist"
            + (f"; its overloads are {', '.join(known)}" if known else "")
        )
    index = -1 if device is None else device_index(device)

    def register(function: Callable) -> Registration:
        wanted = None if dtypes is None else list(dtypes)
        token = _C.add_kernel(qualified, function, wanted, index)
        return Registration(qualified, function, token)

    return register
