"""Exclusions: checks of entries that may fail, each with a reason and an owner.

The kit's stand in `exclusion_table.py` and `suites/arguments/exclusions.py`; a vendor's in a file:

    [[exclusion]]
    entry = "nn.functional.gelu"
    check = "forward"
    reason = "the unit for exponentials has 10 bits"
    owner = "driver"
    dtypes = ["float16"]
    largest = 0.002
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from torch_outboard.scoreboard.answers import failure as failure_row

VALUES = "(result [0-9]+: )?values: "
# Who would have to change something for the exclusion to go.
PYTORCH, KIT, DRIVER = OWNERS = ("PyTorch", "kit", "driver")


@dataclass(frozen=True)
class Exclusion:
    """A check of an entry that may fail.

    Args:
        entry: its full name, such as `name` or `name.variant` in the operator database.
        check: a name that `scoreboard --list` shows.
        reason: why it is right, or unavoidable, that the check fails.
        failure: how the failure's text begins, as a regular expression; others are not hidden.
        largest: the greatest absolute difference of values that is hidden.
        dtypes: names of dtypes; empty for all on which the check runs.
        access: "shared", "separate" or "" for both.
        placement: "device" where it is about device kernels alone, "host" about CPU kernels, else
            "".
        unsafe: calls that `failure` describes are not made, since PyTorch itself may end the
            process in them.
        on_this_cpu: whether the reason holds for a dtype on the processor at hand, by the dtype's
            name; None for a reason that holds on all.
        owner: one of OWNERS.
    """

    entry: str
    check: str
    reason: str
    failure: str = VALUES
    largest: float = inf
    dtypes: tuple[str, ...] = ()
    access: str = ""
    unsafe: bool = False
    placement: str = ""
    on_this_cpu: Callable[[str], bool] | None = None
    owner: str = PYTORCH

    def applies(self, entry: str, dtype: str, access: str, placement: str = "") -> bool:
        return (
            self.entry == entry
            and (not self.dtypes or dtype in self.dtypes)
            and self.is_for(access, placement)
            and (self.on_this_cpu is None or self.on_this_cpu(dtype))
        )

    def is_for(self, access: str, placement: str) -> bool:
        """Whether it holds with this access to memory and this placement."""
        kernels = "device" if placement == "device" else "host"
        return self.access in ("", access) and self.placement in ("", kernels)

    def hides(self, check: str, failure: str) -> bool:
        """Whether it names this failure of an entry to which it applies."""
        if check != self.check or not re.match(self.failure, failure):
            return False
        found = re.search(r"Greatest absolute difference: ([0-9.e+-]+|nan|inf)", failure)
        return self.largest == inf or (found is not None and float(found[1]) <= self.largest)


def listed(
    entries: str, checks: Sequence[str], reason: str, failure: str = VALUES, **options: Any
) -> Iterator[Exclusion]:
    """For each of the entries and checks."""
    for entry in entries.split():
        for check in checks:
            yield Exclusion(entry, check, reason, failure, **options)


def read_file(path: Path) -> tuple[Exclusion, ...]:
    """The exclusions of a vendor's file.

    Raises:
        ValueError: if it is no such file.
    """
    try:
        rows = tomllib.loads(path.read_text()).get("exclusion", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read as a file of exclusions: {error}") from error
    return tuple(_of_row(path, number, row) for number, row in enumerate(rows, 1))


def _of_row(path: Path, number: int, row: dict[str, Any]) -> Exclusion:
    where = f"exclusion {number} of {path}"
    allowed = {f.name for f in fields(Exclusion)} - {"on_this_cpu"}
    if unknown := sorted(set(row) - allowed):
        raise ValueError(
            f"{where} has {', '.join(unknown)}; there are {', '.join(sorted(allowed))}"
        )
    if missing := [name for name in ("entry", "check", "reason", "owner") if not row.get(name)]:
        raise ValueError(f"{where} lacks {', '.join(missing)}")
    if row["owner"] not in OWNERS:
        raise ValueError(f"{where}: the owner is one of {', '.join(OWNERS)}, not {row['owner']!r}")
    given = {**row, "dtypes": tuple(row.get("dtypes", ())), "failure": row.get("failure", "")}
    try:
        re.compile(given["failure"])
        return Exclusion(**given)
    except (TypeError, re.error) as error:
        raise ValueError(f"{where}: {error}") from error


def settle(
    failures: Iterable[dict[str, Any]],
    exclusions: Iterable[Exclusion],
    checked: Iterable[str],
    withheld: Iterable[str],
    needless: Callable[[Exclusion], bool],
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Failures that no exclusion hides, and rows of the exclusions that did.

    Args:
        checked: checks that ran.
        withheld: checks with calls that were not made for an unsafe exclusion.
        needless: whether it is an error that an exclusion hides nothing.
    """
    failures = list(failures)
    excluded: list[dict[str, str]] = []
    checked, withheld = set(checked), set(withheld)
    for exclusion in exclusions:
        row = {"check": exclusion.check, "reason": exclusion.reason, "owner": exclusion.owner}
        if exclusion.unsafe:
            if exclusion.check in withheld:
                excluded.append(row)
            continue
        rest = [f for f in failures if not exclusion.hides(f["check"], f["reason"])]
        if len(rest) < len(failures):
            excluded.append(row)
        elif exclusion.check in checked and needless(exclusion):
            reason = f"exclusion is needless: {exclusion.reason}"
            rest.append(failure_row(exclusion.check, -1, reason))
        failures = rest
    return failures, excluded
