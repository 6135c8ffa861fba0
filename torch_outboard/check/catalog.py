"""The list of all checks, and the decorator that enters a function there."""

from __future__ import annotations

import fnmatch
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_outboard.check.outcome import Failed, NotOffered, NotTestable, Outcome, Verdict
from torch_outboard.drivers.client import DriverError

if TYPE_CHECKING:
    from torch_outboard.check.session import Session

# The order of the report: what other checks use comes first.
GROUPS = (
    "table",
    "devices",
    "transfers",
    "memory",
    "threads",
    "queues",
    "events",
    "failures",
    "programs",
    "launches",
    "products",
    "convolutions",
    "graphs",
    "sharing",
    "communication",
    "training",
)


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: group and name, such as `"memory.sizes"`.
        run: the function.
        functions: of the table, of which the first is named if nothing better is known. The check
            is not offered by a driver that lacks one of them.
        says: the sentence of the header that it is about.
        advice: what to do next when it fails.
        devices: how many the driver must have.
        seconds: the time limit.
        direct_only: whether fault injection would hide what it is about, or cost much time.
    """

    name: str
    run: Callable[[Session], None]
    functions: tuple[str, ...]
    says: str
    advice: str
    devices: int = 1
    seconds: float = 30
    direct_only: bool = False

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]

    @property
    def what(self) -> str:
        """The first line of the description."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]


_checks: dict[str, Check] = {}


def check(
    *functions: str,
    says: str,
    advice: str,
    devices: int = 1,
    seconds: float = 30,
    direct_only: bool = False,
) -> Callable[[Callable[[Session], None]], Callable[[Session], None]]:
    """Enters a function as a check of its module's group; see `Check` for the arguments."""

    def enter(function: Callable[[Session], None]) -> Callable[[Session], None]:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        _checks[name] = Check(
            name, function, functions, says, advice, devices, seconds, direct_only
        )
        return function

    return enter


def all_checks() -> dict[str, Check]:
    """Every check by its name, group by group."""
    for group in GROUPS:
        importlib.import_module(f"torch_outboard.check.{group}")
    return {name: each for group in GROUPS for name, each in _checks.items() if each.group == group}


def chosen(patterns: Sequence[str]) -> list[Check]:
    """Checks whose group, name or `group.name` matches one of the patterns; all for none.

    Raises:
        ValueError: for a pattern that matches nothing.
    """
    checks = all_checks()

    def matches(name: str, pattern: str) -> bool:
        group, _, last = name.partition(".")
        return any(fnmatch.fnmatchcase(each, pattern) for each in (group, last, name))

    for pattern in patterns:
        if not any(matches(name, pattern) for name in checks):
            raise ValueError(
                f"--only: no check or group matches '{pattern}'; the groups are "
                f"{', '.join(GROUPS)}. `check --list` prints all checks"
            )
    return [
        each
        for name, each in checks.items()
        if not patterns or any(matches(name, pattern) for pattern in patterns)
    ]


def perform(each: Check, driver: Session, run: str) -> Outcome:
    """Runs a check in this process; what it made stays unless it passed."""
    begin = time.perf_counter()

    def outcome(verdict: Verdict, **fields: str) -> Outcome:
        return Outcome(each.name, run, verdict, time.perf_counter() - begin, **fields)

    try:
        driver.need(*each.functions)
        driver.need_devices(each.devices)
        each.run(driver)
        driver.let_go()
    except NotOffered as error:
        return outcome(Verdict.NOT_OFFERED, reason=str(error))
    except NotTestable as error:
        return outcome(Verdict.NOT_TESTABLE, reason=str(error))
    except Exception as error:
        return outcome(Verdict.FAILED, **failure(each, error))
    return outcome(Verdict.PASSED)


def failure(each: Check, error: Exception) -> dict[str, str]:
    """The fields of an outcome for what a check raised."""
    if isinstance(error, DriverError):
        error = Failed("OK", f"{error.status.name}: {error.message}", function=error.function)
    if not isinstance(error, Failed):
        error = Failed("a result to compare", f"{type(error).__name__}: {error}")
    first = each.functions[0] if each.functions else "ob_driver_table"
    return {
        "function": error.function or first,
        "says": error.says or each.says,
        "expected": error.expected,
        "got": error.got,
        "advice": error.advice or each.advice,
    }
