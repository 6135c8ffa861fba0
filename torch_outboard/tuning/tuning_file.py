"""What `python -m torch_outboard tune` measured on a device, kept on disk.

That is by what `auto` decides (times of calls by both ways, and what Python does beside the
device), and the tiles of matrix products. The file lies beside the compiled programs, one for each
device, version of its driver and version of PyTorch. It is read at the first use of the device.
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
from torch_outboard.state import state
from torch_outboard.tuning import way_savings
from torch_outboard.tuning.tuning_journal import Journal
from torch_outboard.tuning.way_savings import Beside, Times

# Changes when files of older versions can no longer be used.
FORMAT = 2


@dataclass
class Tuning:
    """What was measured on one device."""

    device: str
    driver_version: str
    torch: str = torch.__version__
    date: str = ""
    threads: int = 0  # that host kernels used
    # As in way_savings.py.
    times: Times = field(default_factory=dict)
    beside: Beside = way_savings.TYPICAL_BESIDE
    # By choice of `beside`: the largest ratio of a program's time to that by the better forced way.
    costs: dict[str, float] = field(default_factory=dict)
    # Rows, vectors and panels of products, by the name of the dtype of their sums.
    products: dict[str, list[int]] = field(default_factory=dict)


def empty(device: int) -> Tuning:
    """A tuning of a device, of now, in which nothing was measured yet."""
    properties = _C.device_properties(device)
    return Tuning(
        device=properties.name,
        driver_version=properties.driver_version,
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
            _warn(file, "another version of torch_outboard wrote it")
            return None
        tuning = Tuning(**content)
        tuning.times = {
            name: {int(elements): (float(device), float(host))
                   for elements, (device, host) in by_size.items()}
            for name, by_size in tuning.times.items()
        }  # fmt: skip
        if tuning.beside not in ("device", "host", "typical"):
            tuning.beside = float(tuning.beside)
        if not all(tuning.times.values()):
            raise ValueError("there is an operator without times")
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
        tuning.times = before.times | tuning.times
        tuning.products = before.products | tuning.products
    file = save(device, tuning)
    apply(device, tuning)
    return file


def apply(device: int, tuning: Tuning) -> None:
    """Lets a device work by what was found."""
    times = way_savings.TYPICAL | tuning.times
    _C.set_way_savings(device, way_savings.table(times, tuning.beside))
    for dtype, blocks in tuning.products.items():
        rows, vectors, panels = blocks
        _C.set_product_blocks(device, getattr(torch, dtype), rows, vectors, panels)


def apply_all() -> None:
    """Gives every device what its file says; CPUs without one get the typical table.

    Of the driver `host` nothing is typical: its kernels depend on the compiler and the processor.
    Where both sides share memory, programs stay with the host's kernels until it is measured.
    """
    for device in range(_C.device_count()):
        if not _C.runs_code(device):
            continue
        tuning = load(device)
        if tuning is None and _C.device_properties(device).kind == "cpu":
            tuning = empty(device)
            if state.name == "host":
                tuning.beside = "host"
        if tuning is not None:
            try:
                apply(device, tuning)
            except (ValueError, TypeError, AttributeError) as error:
                _warn(path(device), error)
