"""What `python -m torch_outboard tune` measured on a device, kept on disk.

That is what `auto` means (for how many elements the device's kernels are better than the host's),
and the tiles of matrix products. The file lies beside the compiled programs, one for each device,
version of its driver and version of PyTorch. It is read at the first use of the device.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from torch_outboard import _C
from torch_outboard.ops import program_cache
from torch_outboard.tuning.tuning_journal import Journal

# Changes when files of older versions can no longer be used.
FORMAT = 1

# Numbers of elements, from the first to the one behind the last; None: no end.
Range = tuple[int, int | None]
# By family or operator, where the device's kernels are taken; nowhere if the list is empty.
Ranges = dict[str, list[Range]]


@dataclass
class Tuning:
    """What was measured on one device."""

    device: str
    driver_version: str
    ranges: Ranges
    torch: str = torch.__version__
    date: str = ""
    threads: int = 0  # that host kernels used
    # Time of the device's kernels over that of the host's, by family or operator and by number of
    # elements.
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)
    # Rows, vectors and panels of products, by the name of the dtype of their sums.
    products: dict[str, list[int]] = field(default_factory=dict)


def empty(device: int) -> Tuning:
    """A tuning of a device, of now, in which nothing was measured yet."""
    properties = _C.device_properties(device)
    return Tuning(
        device=properties.name,
        driver_version=properties.driver_version,
        ranges={},
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        threads=torch.get_num_threads(),
    )


def path(device: int) -> Path | None:
    """The file of a device; None if nothing is kept on disk."""
    folder = program_cache.folder()
    if not folder:
        return None
    properties = _C.device_properties(device)
    words = (properties.name, properties.driver_version, torch.__version__)
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]
    return Path(folder, f"ways-{digest}.json")


def journal(device: int) -> Journal:
    """What a run that was stopped has measured on a device, and where this one keeps the same."""
    file = path(device)
    conditions = {"format": FORMAT, "threads": torch.get_num_threads()}
    return Journal(file.with_suffix(".journal") if file is not None else None, conditions)


def save(device: int, tuning: Tuning) -> Path | None:
    """Writes the file of a device, as a whole or not at all; None if nothing is kept on disk.

    Raises:
        OSError: if it cannot be written.
    """
    file = path(device)
    if file is None:
        return None
    content = json.dumps({"format": FORMAT, **asdict(tuning)}, indent=1).encode()
    folder, shared = str(file.parent), program_cache.shared()
    if problem := _C.write_private_file(folder, file.name, content, shared):
        raise OSError(problem)
    return file


def load(device: int) -> Tuning | None:
    """What was measured on a device; None if nothing was. Warns of a file that cannot be used."""
    file = path(device)
    if file is None:
        return None
    data, problem = _C.read_private_file(str(file.parent), file.name, program_cache.shared())
    if problem:
        _warn(file, problem)
    if data is None:
        return None
    try:
        content = json.loads(data)
        if content.pop("format") != FORMAT:
            return None
        tuning = Tuning(**content)
        tuning.ranges = {
            name: [_checked(*pair) for pair in pairs] for name, pairs in tuning.ranges.items()
        }
        _check_owner(device, tuning)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        _warn(file, error)
        return None
    return tuning


def _check_owner(device: int, tuning: Tuning) -> None:
    """Raises ValueError for a file that lies under the name of another device's."""
    properties = _C.device_properties(device)
    expected = (properties.name, properties.driver_version, torch.__version__)
    found = (tuning.device, tuning.driver_version, tuning.torch)
    if found != expected:
        raise ValueError(f"it is about {', '.join(found)} and not about {', '.join(expected)}")


def _checked(first: int, end: int | None) -> Range:
    if first < 0 or (end is not None and end <= first):
        raise ValueError(f"there is no number from {first} to below {end}")
    return first, end


def _warn(file: Path | None, reason: Exception | str) -> None:
    warnings.warn(
        f"{file} cannot be used ({reason}), so the device works by the defaults; "
        "`python -m torch_outboard tune` writes it again",
        stacklevel=3,
    )


def keep(device: int, tuning: Tuning) -> Path | None:
    """Writes what was found and applies it in this process; returns the file, if there is one.

    What was not measured now stays as it was found before.
    """
    if (before := load(device)) is not None:
        tuning.ranges = before.ranges | tuning.ranges
        tuning.ratios = before.ratios | tuning.ratios
        tuning.products = before.products | tuning.products
    file = save(device, tuning)
    apply(device, tuning)
    return file


def apply(device: int, tuning: Tuning) -> None:
    """Lets a device work by what was found."""
    _C.set_way_ranges(device, tuning.ranges)
    for dtype, blocks in tuning.products.items():
        rows, vectors, panels = blocks
        _C.set_product_blocks(device, getattr(torch, dtype), rows, vectors, panels)


def apply_all() -> None:
    """Gives every device what its file says; the others keep the defaults."""
    for device in range(_C.device_count()):
        if _C.runs_code(device) and (tuning := load(device)) is not None:
            try:
                apply(device, tuning)
            except (ValueError, TypeError, AttributeError) as error:
                _warn(path(device), error)
