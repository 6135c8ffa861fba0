"""What other libraries have to be told before they choose the device.

Libraries that ask PyTorch for its accelerator find the device by themselves. Some know the names of
certain devices instead, and go on with the CPU where none of these is there. Those that have an
environment variable or a registry for others are told here:

    import torch_outboard.integrations

    torch_outboard.integrations.enable()   # before the library is used

README.md has a table of what works with what.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_outboard.integrations import accelerate, lightning

_INTEGRATIONS: dict[str, Callable[[], bool]] = {
    "accelerate": accelerate.enable,
    "lightning": lightning.enable,
}


def enable(*names: str) -> list[str]:
    """Tells libraries of the device in use.

    Args:
        names: "accelerate" (which transformers and its `Trainer` use, too), "lightning"; all by
            default.

    Returns:
        The names of those that were told, or had been before. A library that is not installed is
        left out.

    Raises:
        ValueError: for another name.
    """
    if unknown := sorted(set(names) - set(_INTEGRATIONS)):
        raise ValueError(
            f"there is no integration of {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(map(repr, _INTEGRATIONS))}"
        )
    return [name for name in names or _INTEGRATIONS if _INTEGRATIONS[name]()]
