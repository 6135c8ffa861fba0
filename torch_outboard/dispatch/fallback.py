"""Policies for operators on the host, and reports of placements.

An operator has one of three placements: `device` (a device kernel), `host` (a CPU kernel on memory
that host and device share) or `copied` (a CPU kernel on copies). The policies of the last two are
`"allow"`, `"warn"` (once per operator) or `"error"` (`NotImplementedError`). By default `host` is
allowed and `copied` warns.

The environment sets the start: `OUTBOARD_FALLBACK_HOST`, `OUTBOARD_FALLBACK_COPIED` (a policy
each), `OUTBOARD_FALLBACK_ALLOW` and `OUTBOARD_FALLBACK_DENY` (operator names, separated by commas).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import torch

from torch_outboard import _C, settings
from torch_outboard.columns import columns
from torch_outboard.dispatch.dispatcher import qualified
from torch_outboard.dispatch.registrations import notice

__all__ = [
    "Report",
    "Row",
    "Wait",
    "allow",
    "deny",
    "policies",
    "policy",
    "report",
    "set_policy",
    "unlist",
]

_PLACEMENTS = ("host", "copied")


def policies() -> dict[str, str]:
    """The policies by placement, for example `{"host": "allow", "copied": "warn"}`."""
    return {placement: _C.fallback_policy(placement) for placement in _PLACEMENTS}


def set_policy(*, host: str | None = None, copied: str | None = None) -> None:
    """Sets the policy of a placement for the whole process: `"allow"`, `"warn"` or `"error"`.

    Raises:
        ValueError: if a policy is none of these.
    """
    notice()
    for placement, value in (("host", host), ("copied", copied)):
        if value is not None:
            _C.set_fallback_policy(placement, value)


def _deniable(name: str) -> str:
    """The full name of an operator that can be denied, or ValueError."""
    full = qualified(name)
    namespace, _, rest = full.partition("::")
    # Libraries may register their operators later.
    if namespace != "aten":
        return full
    operator, _, overload = rest.partition(".")
    packet = getattr(torch.ops.aten, operator, None)
    if packet is None or (overload and overload not in packet.overloads()):
        raise ValueError(f"'{full}' cannot be denied: PyTorch has no such operator")
    overloads = [overload] if overload else [o.replace("default", "") for o in packet.overloads()]
    names = [f"aten::{operator}.{o}".removesuffix(".") for o in overloads]
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(n, "PrivateUse1") for n in names):
        return full
    raise ValueError(
        f"'{full}' cannot be denied: it never runs by itself, on whatever device, but only as "
        "the operators it is composed of; deny those, which fallback.report() shows"
    )


def allow(*names: str) -> None:
    """Lets operators run on the host whatever the policies say.

    A name is an overload (`"aten::add.Tensor"`) or an operator with all overloads (`"aten::add"`);
    without a namespace it is of `aten`.
    """
    notice()
    for name in names:
        _C.set_fallback_listing(qualified(name), "allowed")


def deny(*names: str) -> None:
    """Makes operators raise `NotImplementedError` where they would run on the host.

    Names are as in `allow`.

    Raises:
        ValueError: if there is no such operator, or it never reaches the device because PyTorch
            decomposes it (`aten::linear`).
    """
    notice()
    for name in [_deniable(name) for name in names]:
        _C.set_fallback_listing(name, "denied")


def unlist(*names: str) -> None:
    """Removes operators from both lists, so that the policies apply again."""
    for name in names:
        _C.set_fallback_listing(qualified(name), "none")


@contextmanager
def policy(
    *,
    host: str | None = None,
    copied: str | None = None,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> Iterator[None]:
    """Sets policies and lists for a `with` block, in all threads, and restores them at its end."""
    before = policies()
    listed = dict.fromkeys(_C.fallback_listing("allowed"), "allowed")
    listed |= dict.fromkeys(_C.fallback_listing("denied"), "denied")
    notice()
    wanted = [(qualified(name), "allowed") for name in allow]
    wanted += [(_deniable(name), "denied") for name in deny]
    try:
        set_policy(host=host, copied=copied)
        for name, listing in wanted:
            _C.set_fallback_listing(name, listing)
        yield
    finally:
        set_policy(**before)
        for name, _ in wanted:
            _C.set_fallback_listing(name, listed.get(name, "none"))


@dataclass(frozen=True)
class Row:
    """A line of a report: an operator on a dtype at a placement, and the cost of its calls.

    Waits and compiled programs of nested calls count for the outermost call.
    """

    op: str
    dtype: torch.dtype | None
    placement: str
    call_site: str
    calls: int
    copied_bytes: int
    seconds: float  # in the calling thread, waits and compilation included
    waits: int  # waits of the host for the device
    waiting_seconds: float
    programs: int  # compiled from source
    compiling_seconds: float


@dataclass(frozen=True)
class Wait:
    """Waits of the host for a device at one line of the program.

    `cause` is an operator, or a function: `synchronize`, `Stream.synchronize`, `Event.synchronize`,
    `item`. `call_site` is "" without call sites, and where no Python code runs, as in a backward
    pass.
    """

    cause: str
    call_site: str
    count: int
    seconds: float


@dataclass
class Report:
    """The operators run in a `with torch_outboard.fallback.report()` block; filled at its end."""

    rows: list[Row] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)

    def share_by_placement(self) -> dict[str, float]:
        """The share of calls at each placement, between 0 and 1."""
        calls = {"device": 0, "host": 0, "copied": 0}
        for row in self.rows:
            calls[row.placement] += row.calls
        total = sum(calls.values())
        return {placement: count / total if total else 0.0 for placement, count in calls.items()}

    def __str__(self) -> str:
        cells = [("operator", "dtype", "placement", "calls", "copied", "ms", "")]
        for row in sorted(self.rows, key=lambda r: -r.seconds):
            dtype = str(row.dtype).removeprefix("torch.") if row.dtype else "-"
            numbers = (str(row.calls), str(row.copied_bytes), f"{row.seconds * 1e3:.3f}")
            cells.append((row.op, dtype, row.placement, *numbers, row.call_site))
        return columns(cells, right=(3, 4, 5))


@contextmanager
def report(*, call_sites: bool | Literal["waits"] = False) -> Iterator[Report]:
    """Counts every routed operator, and every wait of the host, while the block runs.

    With `call_sites=True` each line also has the calling line of Python, which takes the
    interpreter lock on every call; with `"waits"` only the waits have theirs. Blocks do not nest:
    an inner block restarts the counts.
    """
    result = Report()
    notice()
    _C.clear_report()
    _C.start_report("waits" if call_sites == "waits" else "all" if call_sites else "none")
    try:
        yield result
    finally:
        _C.stop_report()
        result.rows += [  # costs are in nanoseconds
            Row(*r[:6], r[6] * 1e-9, r[7], r[8] * 1e-9, r[9], r[10] * 1e-9)
            for r in _C.report_rows()
        ]
        result.waits = [
            Wait(cause, site, count, nanoseconds * 1e-9)
            for cause, site, count, nanoseconds in _C.report_waits()
        ]


def configure_from_environment() -> None:
    """Applies the `OUTBOARD_FALLBACK_*` variables; called when the backend is loaded.

    Raises:
        ValueError: if a policy is unknown.
    """
    set_policy(
        host=settings.read("OUTBOARD_FALLBACK_HOST"),
        copied=settings.read("OUTBOARD_FALLBACK_COPIED"),
    )
    allow(*settings.read("OUTBOARD_FALLBACK_ALLOW") or ())
    deny(*settings.read("OUTBOARD_FALLBACK_DENY") or ())
