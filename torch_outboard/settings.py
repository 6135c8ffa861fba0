"""Reading the environment variables of the kit and of its drivers, and a warning for others.

`setting_table` has all of them. An invalid value raises at the first use of the device.

A misspelt variable would have no effect, so there is a warning. An external driver lists the names
of its settings, such as `OUTBOARD_MYCHIP_SPEED`, in its module as `SETTINGS`; without that list,
all variables that begin with its name in capitals are its settings.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterable
from typing import Any

from torch_outboard.drivers.discovery import SHIPPED_DRIVERS, installed_drivers
from torch_outboard.setting_table import SETTINGS, Setting

PREFIX = "OUTBOARD_"

KNOWN = frozenset(SETTINGS)

# The numbers that C++ accepts, too.
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def read(name: str) -> Any:
    """The value of a setting: a string, a number or a list of words; None if it is unset or empty.

    Raises:
        ValueError: if the value is invalid, with the range.
    """
    text = os.environ.get(name, "")
    if not text:
        return None
    setting = SETTINGS[name]
    if problem := problem_with(setting, text):
        raise ValueError(f"{name}={text!r} {problem}")
    if setting.kind in ("flag", "whole"):
        return int(text)
    if setting.kind == "number":
        return float(text)
    return _words(text) if setting.kind == "list" else text


def problem_with(setting: Setting, text: str) -> str | None:
    """The reason why a string is not a value of a setting, as the end of a sentence."""
    kind = setting.kind
    if kind == "flag":
        return None if text in ("0", "1") else "is neither 0 nor 1"
    if kind == "choice":
        return None if text in setting.choices else f"is not one of {', '.join(setting.choices)}"
    if kind == "list":
        words = _words(text)
        if not words:
            return "names nothing"
        wrong = [word for word in words if setting.choices and word not in setting.choices]
        return (
            f"names {wrong[0]}, which is not one of {', '.join(setting.choices)}" if wrong else None
        )
    if kind in ("whole", "number"):
        whole = kind == "whole"
        possible = text.isascii() and text.isdigit() if whole else bool(_NUMBER.fullmatch(text))
        number = (int(text) if whole else float(text)) if possible else -1
        if not setting.low <= number <= setting.high:
            return f"is not a {'whole ' if whole else ''}number from {range_of(setting)}"
    return None


def range_of(setting: Setting) -> str:
    """The smallest and the largest number of a setting, in words."""
    return f"{setting.low:g} to {setting.high if setting.kind == 'whole' else f'{setting.high:g}'}"


def first_problem(driver: str) -> str | None:
    """A sentence about the first invalid setting of the kit or a driver in the environment."""
    for name in sorted(os.environ):
        if name in SETTINGS and SETTINGS[name].driver in ("", driver):
            try:
                read(name)
            except ValueError as error:
                return str(error)
    return None


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def unknown(driver: str = "", module: str | None = None) -> list[str]:
    """Environment variables that look like settings and are not, sorted.

    Args:
        driver: the name of the driver in use.
        module: the driver's module, which lists its settings; None: all variables that begin with
            its name are settings.
    """
    found = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in KNOWN)
    if not found:
        return []
    own = settings_of(module)
    # Other installed drivers have settings, too.
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
    """The `SETTINGS` of a driver's module; None if it declares none."""
    if module is None:
        return None
    try:
        declared: Iterable[str] | None = getattr(importlib.import_module(module), "SETTINGS", None)
    except Exception:  # the first use of the driver reports the error
        return None
    return frozenset(declared) if declared is not None else None


def words_about(names: Iterable[str], module: str | None = None) -> str:
    """A sentence about ignored variables, each with the most similar setting.

    Args:
        names: the variables.
        module: the module of the driver in use.
    """
    import difflib

    known = {
        name.removeprefix(PREFIX): name for name in KNOWN | (settings_of(module) or frozenset())
    }
    parts = []
    for name in names:
        close = difflib.get_close_matches(name.removeprefix(PREFIX), sorted(known), n=1)
        parts.append(f"{name} (did you mean {known[close[0]]}?)" if close else name)
    if len(parts) == 1:
        return f"{parts[0]} is not a setting of torch_outboard or its drivers, and is ignored"
    return f"{', '.join(parts)} are not settings of torch_outboard or its drivers, and are ignored"


def warn_of_unknown(driver: str, module: str | None = None) -> None:
    """Warns of variables that look like settings and are not.

    Args:
        driver: the name of the driver in use.
        module: the driver's module, for a warning of variables that begin with its name; without
            it, these count as settings.
    """
    prefix = PREFIX if module is None else _prefix(driver)
    if not any(name.startswith(prefix) for name in os.environ):
        return
    if names := [name for name in unknown(driver, module) if name.startswith(prefix)]:
        warnings.warn(words_about(names, module), stacklevel=2)
