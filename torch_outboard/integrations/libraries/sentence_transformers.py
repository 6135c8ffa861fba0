"""sentence-transformers: `SentenceTransformer()` without a device.

Upstream, and what is changed:

- `util.get_device_name`: the device's name instead of "cpu"
"""

from __future__ import annotations

from typing import Any

from torch_outboard.integrations.changes import Changes
from torch_outboard.integrations.library import Library, Place


def _choose_device(module: Any, changes: Changes) -> None:
    changes.replace_cpu(module, "get_device_name")


LIBRARY = Library(
    name="sentence_transformers",
    distribution="sentence-transformers",
    tried="6.2.0",
    places=(Place("the default device", "sentence_transformers.util", _choose_device),),
    needs=("accelerate", "transformers"),
)
