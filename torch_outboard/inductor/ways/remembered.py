"""What was chosen for graphs, kept on disk beside the compiled programs."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.ops.program_cache import folder


def key_of(described: Any, device: int) -> str:
    """What a choice holds for: that, and what it runs on."""
    properties = _C.device_properties(device)
    parts = (
        *described, properties.name, properties.driver_version,
        properties.multi_processor_count, torch.get_num_threads(), torch.__version__,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _path() -> str:
    """Beside the compiled programs; "" if none are kept."""
    return os.path.join(folder(), "graph_ways.json") if folder() else ""


def remembered() -> dict[str, str]:
    """What was chosen, by key; empty if nothing can be read."""
    try:
        with open(_path()) as file:
            known = json.load(file)
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def remember(key: str, way: str) -> None:
    """Keeps a choice; without a folder to write to, it holds for this process."""
    path = _path()
    if not path:
        return
    known = {**remembered(), key: way}
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder(), delete=False) as file:
            json.dump(known, file)
        os.replace(file.name, path)
    except OSError:
        pass
