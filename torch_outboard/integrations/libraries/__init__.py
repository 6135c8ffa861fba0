"""One file for each library: the code that names devices, and its changes."""

from __future__ import annotations

from torch_outboard.integrations.libraries import (
    accelerate,
    ignite,
    keras,
    lightning,
    safetensors,
    sentence_transformers,
    stable_baselines3,
    torch_geometric,
    transformers,
    ultralytics,
)
from torch_outboard.integrations.library import Library

LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (
        accelerate.LIBRARY,
        ignite.LIBRARY,
        keras.LIBRARY,
        lightning.LIBRARY,
        lightning.OLDER,
        safetensors.LIBRARY,
        sentence_transformers.LIBRARY,
        stable_baselines3.LIBRARY,
        torch_geometric.LIBRARY,
        transformers.LIBRARY,
        ultralytics.LIBRARY,
    )
}
