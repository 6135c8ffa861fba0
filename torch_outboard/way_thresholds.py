"""What `auto` means on a device: from how many elements on its kernels are better than the host's.

`python -m torch_outboard tune` measures thresholds and keeps them in a file beside the compiled
programs, one for each device, version of its driver and version of PyTorch. They are read at the
first use of the device.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from torch_outboard import _C
from torch_outboard.ops import program_cache

# Changes when files of older versions can no longer be used.
FORMAT = 1

# Family to number of elements; None: the host's kernels for any number.
Thresholds = dict[str, int | None]


@dataclass
class Tuning:
    """What was measured on one device."""

    device: str
    driver_version: str
    thresholds: Thresholds
    torch: str = torch.__version__
    date: str = ""
    threads: int = 0  # that host kernels used
    # Time of the device's kernels over that of the host's: family to number of elements to ratio.
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)


def path(device: int) -> Path | None:
    """The file of a device; None if nothing is kept on disk."""
    folder = program_cache.folder()
    if not folder:
        return None
    properties = _C.device_properties(device)
    words = (properties.name, properties.driver_version, torch.__version__)
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    return Path(folder, f"ways-{digest}.json")


def save(device: int, tuning: Tuning) -> Path | None:
    """Writes the file of a device, as a whole or not at all; None if nothing is kept on disk.

    Raises:
        OSError: if it cannot be written.
    """
    file = path(device)
    if file is None:
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=file.name, dir=file.parent)
    try:
        with os.fdopen(descriptor, "w") as stream:
            json.dump({"format": FORMAT, **asdict(tuning)}, stream, indent=1)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
    return file


def load(device: int) -> Tuning | None:
    """What was measured on a device; None if nothing was. Warns of a file that cannot be read."""
    file = path(device)
    if file is None:
        return None
    try:
        content = json.loads(file.read_text())
        if content.pop("format") != FORMAT:
            return None
        tuning = Tuning(**content)
        for family, elements in tuning.thresholds.items():
            if not isinstance(family, str) or not (elements is None or elements >= 0):
                raise ValueError(f"{family!r} has the threshold {elements!r}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        warnings.warn(
            f"{file} cannot be used ({error}), so `auto` takes its default ways; "
            "`python -m torch_outboard tune` writes it again",
            stacklevel=2,
        )
        return None
    return tuning


def apply_all() -> None:
    """Gives every device the thresholds of its file; the others keep the default."""
    for device in range(_C.device_count()):
        if _C.runs_code(device) and (tuning := load(device)) is not None:
            _C.set_way_thresholds(device, tuning.thresholds)
