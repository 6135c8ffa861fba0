"""torch_geometric: `device("auto")`, and `PrefetchLoader`.

Upstream, and what is changed:

- `device.device`: "auto" is the device instead of the CPU
- `loader.prefetch.DeviceHelper.__init__`: the device without one; the list of devices to copy to
  ahead
"""

from __future__ import annotations

from typing import Any

from torch_outboard import device_name
from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    changes.replace_cpu(module, "device", only_for="auto")


def _prefetch(module: Any, changes: Changes) -> None:
    changes.extend_constant(module.DeviceHelper.__init__, ("cuda", "xpu"), device_name())
    changes.replace(module.DeviceHelper, "__init__", _by_default)


def _by_default(before: Any) -> Any:
    def __init__(self: Any, device: Any = None) -> None:
        before(self, device_name() if device is None else device)

    return __init__


LIBRARY = Library(
    name="torch_geometric",
    distribution="torch_geometric",
    tried="2.8.1",
    places=(
        Place('device("auto")', "torch_geometric.device", _choose_device),
        Place("PrefetchLoader", "torch_geometric.loader.prefetch", _prefetch),
    ),
)
