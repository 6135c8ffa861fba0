"""Adds the device to libraries that have a fixed list of device names.

Libraries that ask PyTorch for its accelerator find the device without help. Other libraries use the
CPU if none of the devices in their list is available:

    import torch_outboard.integrations

    print(torch_outboard.integrations.enable())

extends their lists and functions, each when its library is imported, and `disable()` undoes that.
`libraries` has the changes. docs/start/models.md has a table of libraries and features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch_outboard.columns import columns
from torch_outboard.integrations.libraries import LIBRARIES
from torch_outboard.integrations.library import ABSENT, Library

__all__ = ["Row", "disable", "enable", "report"]


@dataclass(frozen=True)
class Row:
    """A library in a report.

    Attributes:
        name: its import name.
        version: the installed version, or empty.
        tried: the versions that the changes were tested with.
        state: "enabled", "enabled when imported", "unchanged", "code differs" or "not installed".
    """

    name: str
    version: str
    tried: str
    state: str


class Report(tuple[Row, ...]):
    """Rows; `str(report)` is a table."""

    def __str__(self) -> str:
        title = ("library", "version", "tried with", "state")
        return columns([title, *((row.name, row.version, row.tried, row.state) for row in self)])


def enable(*names: str) -> Report:
    """Adds the device in use to libraries, without importing them.

    Code of a library that differs from the expected code is not changed, with one warning.

    Args:
        names: import names of the libraries; all by default. Libraries by which they choose their
            device are included.

    Returns:
        The state of each library, which prints as a table.

    Raises:
        ValueError: for an unknown name.
        RuntimeError: if there is no device.
    """
    needed = [other for name in names if name in LIBRARIES for other in LIBRARIES[name].needs]
    chosen = _libraries((*names, *needed))
    for library in chosen:
        if library.version():
            for feature in library.features:
                feature.enable(library)
    return _report(chosen)


def disable(*names: str) -> Report:
    """Undoes the changes of `enable`, for all libraries by default.

    Objects that have chosen their device keep it.

    Returns:
        As `enable` does.

    Raises:
        ValueError: for an unknown name.
    """
    chosen = _libraries(names)
    for library in reversed(chosen):
        for feature in reversed(library.features):
            feature.disable()
    return _report(chosen)


def report() -> Report:
    """The state of each installed library."""
    return Report(row for row in _report(LIBRARIES.values()) if row.state != ABSENT)


def _libraries(names: tuple[str, ...]) -> list[Library]:
    if unknown := sorted(set(names) - set(LIBRARIES)):
        raise ValueError(
            f"there is no integration of {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(map(repr, LIBRARIES))}"
        )
    return [LIBRARIES[name] for name in LIBRARIES if not names or name in names]


def _report(libraries: Iterable[Library]) -> Report:
    return Report(Row(one.name, one.version(), one.tried, one.state()) for one in libraries)
