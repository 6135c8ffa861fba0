"""Choice of the driver and location of its library, from installed metadata only.

A driver is announced by an entry point of group `torch_outboard.drivers`: its name is the device's
name, its value a module. If a file `libob_<name>.so` lies in the folder of that module, it is the
driver, and the module is never imported. Otherwise the module is imported at the first use of the
device and asked: `library_path() -> str`, or `table() -> int`, the address of an `ob_driver`. The
command `doctor` prints what `describe() -> str` returns, if the module has it.

`OUTBOARD_DRIVER` may also be the path of a library `libob_<name>.so`.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path

from torch_outboard.after_import import find_module

DEFAULT_DRIVER = "ocl"
ENTRY_POINT_GROUP = "torch_outboard.drivers"

# The drivers of this package, known without reading all installed metadata at `import torch`.
SHIPPED_DRIVERS = {
    "host": "torch_outboard.drivers.host",
    "ocl": "torch_outboard.drivers.ocl",
    "riscv": "torch_outboard.drivers.riscv",
}


@dataclass(frozen=True)
class DriverChoice:
    """A driver by name, with its location, or the reason why there is none."""

    name: str
    library: Path | None = None
    table: int | None = None
    module: str | None = None
    problem: str | None = None

    @property
    def must_ask(self) -> bool:
        """Whether `module` has to be imported to locate the driver."""
        return self.library is None and self.table is None and self.problem is None


def installed_drivers() -> dict[str, str]:
    """Names and modules of all installed drivers."""
    from importlib.metadata import entry_points

    found = {e.name: e.value for e in entry_points(group=ENTRY_POINT_GROUP)}
    return found | SHIPPED_DRIVERS


def choose_driver(wanted: str) -> DriverChoice:
    """The driver that a name, or the path of a library, stands for. Never raises."""
    if os.sep in wanted or wanted.endswith(".so"):
        return _from_path(Path(wanted))
    try:
        drivers = SHIPPED_DRIVERS if wanted in SHIPPED_DRIVERS else installed_drivers()
    except Exception as error:
        return DriverChoice(wanted, problem=f"installed metadata cannot be read ({error})")
    module = drivers.get(wanted)
    if module is None:
        return DriverChoice(
            wanted,
            problem=(
                f"no driver of that name is installed (there are: {', '.join(sorted(drivers))}); "
                "install it, or set OUTBOARD_DRIVER to one of these"
            ),
        )
    folder = _folder_of_module(module)
    library = folder / f"libob_{wanted}.so" if folder is not None else None
    if library is not None and library.exists():
        return DriverChoice(wanted, library=library, module=module)
    if wanted in SHIPPED_DRIVERS:
        return DriverChoice(
            wanted,
            problem=f"its library {library} does not exist; install torch_outboard again",
        )
    return DriverChoice(wanted, module=module)


def _from_path(path: Path) -> DriverChoice:
    name = path.name.removesuffix(".so").removeprefix("lib").removeprefix("ob_")
    if not path.exists():
        return DriverChoice(name, problem=f"the library {path} does not exist")
    return DriverChoice(name, library=path.resolve())


def ask_module(choice: DriverChoice) -> Path | int:
    """Imports a driver's module and returns its library, or the address of its table.

    Raises:
        RuntimeError: if the module cannot be imported or provides neither.
    """
    if choice.module is None:
        raise RuntimeError(f"the driver '{choice.name}' names no module to ask")
    try:
        module = importlib.import_module(choice.module)
        if hasattr(module, "table"):
            return int(module.table())
        return Path(module.library_path())
    except Exception as error:
        raise RuntimeError(
            f"its module {choice.module} could not be asked for the driver "
            f"({type(error).__name__}: {error})"
        ) from error


def _folder_of_module(name: str) -> Path | None:
    """The folder of a module, found without running code of the module or of its parents."""
    spec = find_module(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    return Path(spec.origin).parent if spec.origin else None
