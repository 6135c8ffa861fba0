"""The environment variables of the kit and of its drivers, and a warning for others.

A variable that is misspelt would do nothing without a word. A driver that is installed apart says
which are its own in its module, as `SETTINGS`, names such as "OUTBOARD_MYCHIP_SPEED"; where it says
nothing, all that begin with its name in capitals are its.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable

from torch_outboard.drivers.discovery import SHIPPED_DRIVERS, installed_drivers

PREFIX = "OUTBOARD_"

# README.md says what each means, docs/testing.md what those for tests mean.
KNOWN = frozenset(
    {
        "OUTBOARD_BLOCKING",
        "OUTBOARD_CACHE_DIR",
        "OUTBOARD_CACHE_LIMIT",
        "OUTBOARD_CACHE_SHARED",
        "OUTBOARD_CLANG",
        "OUTBOARD_CLANG_DIALECT",
        "OUTBOARD_CLANG_SECONDS",
        "OUTBOARD_COMMUNICATION",
        "OUTBOARD_COMPILE_NOTICE",
        "OUTBOARD_DRIVER",
        "OUTBOARD_FALLBACK_ALLOW",
        "OUTBOARD_FALLBACK_COPIED",
        "OUTBOARD_FALLBACK_DENY",
        "OUTBOARD_FALLBACK_SHARED",
        "OUTBOARD_HOST_ACCESS",
        "OUTBOARD_HOST_DEVICES",
        "OUTBOARD_HOST_MEMORY",
        "OUTBOARD_HOST_THREADS",
        "OUTBOARD_OCL_COPIES",
        "OUTBOARD_OCL_DEVICES",
        "OUTBOARD_OCL_EVENTS",
        "OUTBOARD_OCL_LIBRARY",
        "OUTBOARD_OCL_MASK",
        "OUTBOARD_OCL_MEMORY",
        "OUTBOARD_OCL_MEMORY_BYTES",
        "OUTBOARD_OCL_NVIDIA_FORMS",
        "OUTBOARD_OCL_PROCESSOR",
        "OUTBOARD_RISCV_DEVICES",
        "OUTBOARD_RISCV_MEMORY",
        "OUTBOARD_RISCV_TIME_LIMIT",
        "OUTBOARD_RISCV_UNICORN",
        "OUTBOARD_TORTURE",
        "OUTBOARD_WAIT_TIMEOUT",
        "OUTBOARD_WAIT_WARNING",
        "OUTBOARD_WAY",
        "OUTBOARD_WORK_IN_FLIGHT",
    }
)


def unknown(driver: str = "", module: str | None = None) -> list[str]:
    """Variables of the environment that look like settings and are none, sorted.

    Args:
        driver: the name of the driver in use.
        module: the driver's module, to ask it which settings are its; None: all that begin with
            its name are.
    """
    found = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in KNOWN)
    if not found:
        return []
    own = settings_of(module)
    # Drivers that are installed beside the one in use have settings, too.
    others = set(_installed()) - {driver}
    if own is None:
        others.add(driver)
    else:
        found = [name for name in found if name not in own]
    prefixes = tuple(_prefix(name) for name in others if name not in SHIPPED_DRIVERS)
    return [name for name in found if not name.startswith(prefixes)]


def _prefix(driver: str) -> str:
    return f"{PREFIX}{driver.upper()}_"


def _installed() -> Iterable[str]:
    try:
        return installed_drivers()
    except Exception:  # installed metadata that cannot be read
        return ()


def settings_of(module: str | None) -> frozenset[str] | None:
    """What a driver's module declares as its `SETTINGS`; None if it declares none."""
    if module is None:
        return None
    try:
        declared: Iterable[str] | None = getattr(importlib.import_module(module), "SETTINGS", None)
    except Exception:  # the first use of the driver says what is wrong with it
        return None
    return frozenset(declared) if declared is not None else None


def words_about(names: Iterable[str], module: str | None = None) -> str:
    """A sentence about variables that nobody reads, each with the setting that it resembles.

    Args:
        names: the variables.
        module: of the driver in use.
    """
    import difflib

    known = {
        name.removeprefix(PREFIX): name for name in KNOWN | (settings_of(module) or frozenset())
    }
    parts = []
    for name in names:
        close = difflib.get_close_matches(name.removeprefix(PREFIX), sorted(known), n=1)
        parts.append(f"{name} (did you mean {known[close[0]]}?)" if close else name)
    are = "is no setting" if len(parts) == 1 else "are no settings"
    return f"{', '.join(parts)} {are} of torch_outboard or its drivers and ignored"


def warn_of_unknown(driver: str) -> None:
    """Warns of variables that look like settings and are none; those of a driver pass unseen.

    Args:
        driver: the name of the driver in use.
    """
    if names := unknown(driver):
        warnings.warn(words_about(names), stacklevel=2)


def warn_of_unknown_of_driver(driver: str, module: str) -> None:
    """Warns of variables that begin with the driver's name and are none of its settings."""
    prefix = _prefix(driver)
    if not any(name.startswith(prefix) for name in os.environ):
        return
    if names := [name for name in unknown(driver, module) if name.startswith(prefix)]:
        warnings.warn(words_about(names, module), stacklevel=2)
