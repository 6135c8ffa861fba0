"""What was chosen for graphs, kept on disk beside the compiled programs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from torch_outboard import _C
from torch_outboard.ops.program_cache import folder, shared

_FILE = "graph_ways.json"  # beside the compiled programs


def key_of(described: Any, device: int) -> str:
    """What a choice holds for: that, and what it runs on."""
    properties = _C.device_properties(device)
    parts = (
        *described, properties.name, properties.driver_version,
        properties.multi_processor_count, torch.get_num_threads(), torch.__version__,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def remembered() -> dict[str, str]:
    """What was chosen, by key; empty if nothing can be read."""
    if not folder():
        return {}
    data, _ = _C.read_private_file(folder(), _FILE, shared())
    try:
        known = json.loads(data or b"{}")
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def remember(key: str, way: str) -> None:
    """Keeps a choice; without a folder to write to, it holds for this process."""
    if not folder():
        return
    content = json.dumps({**remembered(), key: way}).encode()
    _C.write_private_file(folder(), _FILE, content, shared())
