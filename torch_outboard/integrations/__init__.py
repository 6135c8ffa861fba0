"""Tells other libraries of the device, where they know only the names of certain devices.

Libraries that ask PyTorch for its accelerator find the device by themselves. Others go on with the
CPU where none of the devices that they know is there:

    import torch_outboard.integrations

    print(torch_outboard.integrations.enable())

extends their lists and functions, each when its library is imported, and `disable()` takes that
back. One file for each library says which. README.md has a table of what works with what.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_outboard.columns import columns
from torch_outboard.integrations.libraries import LIBRARIES
from torch_outboard.integrations.library import ABSENT

__all__ = ["Row", "disable", "enable", "report"]


@dataclass(frozen=True)
class Row:
    """One library.

    Attributes:
        name: as it is imported.
        version: that is installed, or empty.
        tried: the versions that its changes were tried with.
        state: "told", "told when imported", "unchanged", "place has changed" or "not installed".
    """

    name: str
    version: str
    tried: str
    state: str


class Report(tuple[Row, ...]):
    """Rows, which print as a table."""

    def __str__(self) -> str:
        title = ("library", "version", "tried with", "state")
        return columns([title, *((row.name, row.version, row.tried, row.state) for row in self)])


def enable(*names: str) -> Report:
    """Tells libraries of the device in use. Imports none of them.

    A library that does not look as expected gets one warning, and stays as it is there.

    Args:
        names: of the libraries as they are imported; all by default. What they choose their device
            by is told, too.

    Returns:
        What became of each, which prints as a table.

    Raises:
        ValueError: for another name.
        RuntimeError: if there is no device.
    """
    chosen = _chosen(names)
    for name in chosen:
        library = LIBRARIES[name]
        if library.version():
            for place in library.places:
                place.enable(library)
    return _report(chosen)


def disable(*names: str) -> Report:
    """Takes back what `enable` changed; of all libraries by default.

    What has chosen its device by then keeps it.

    Returns:
        As `enable` does.

    Raises:
        ValueError: for another name.
    """
    chosen = list(names) or list(LIBRARIES)
    _check(chosen)
    for name in reversed(chosen):
        for place in reversed(LIBRARIES[name].places):
            place.disable()
    return _report(chosen)


def report() -> Report:
    """The state of each library that is installed."""
    return Report(row for row in _report(list(LIBRARIES)) if row.state != ABSENT)


def _chosen(names: tuple[str, ...]) -> list[str]:
    _check(names)
    wanted = set(names or LIBRARIES)
    for name in names:
        wanted.update(LIBRARIES[name].needs)
    return [name for name in LIBRARIES if name in wanted]


def _check(names: tuple[str, ...] | list[str]) -> None:
    if unknown := sorted(set(names) - set(LIBRARIES)):
        raise ValueError(
            f"there is no integration of {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(map(repr, LIBRARIES))}"
        )


def _report(names: list[str]) -> Report:
    libraries = [LIBRARIES[name] for name in names]
    return Report(Row(one.name, one.version(), one.tried, one.state()) for one in libraries)
