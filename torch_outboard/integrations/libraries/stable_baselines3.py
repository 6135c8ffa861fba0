"""stable-baselines3: `device="auto"`, the default of every algorithm.

Upstream, and what is changed:

- `common.utils.get_device`: "auto" is the device instead of the CPU
"""

from __future__ import annotations

from typing import Any

from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    changes.replace_cpu(module, "get_device", only_for="auto")


LIBRARY = Library(
    name="stable_baselines3",
    distribution="stable-baselines3",
    tried="2.9.2",
    places=(Place('device="auto"', "stable_baselines3.common.utils", _choose_device),),
)
