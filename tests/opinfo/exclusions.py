"""What the operator sweep does not ask of the device, each with its reason.

An exclusion that hides no failure any more fails the entry that it names, so this table cannot
outlive its reasons.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exclusion:
    """A check of an entry that may fail.

    Args:
        entry: full name in the operator database, `name` or `name.variant`.
        check: one of forward, aliasing, mutation, inplace, out, backward.
        reason: why it is right, or unavoidable, that the check fails.
        dtypes: names of dtypes; empty for all on which the check runs.
        access: "shared", "separate" or "" for both.
    """

    entry: str
    check: str
    reason: str
    dtypes: tuple[str, ...] = ()
    access: str = ""

    def applies(self, entry: str, dtype: str, access: str) -> bool:
        return (
            self.entry == entry
            and (not self.dtypes or dtype in self.dtypes)
            and self.access in ("", access)
        )


SPARSE = "PyTorch gives sparse layouts dispatch keys of their own; the backend serves dense tensors"

EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion("mode", "out", "PyTorch itself lists the devices that mode(out=) accepts"),
    Exclusion("sparse.mm.reduce", "forward", SPARSE),
    Exclusion("sparse.mm.reduce", "backward", SPARSE),
    Exclusion("sparse.sampled_addmm", "forward", SPARSE),
    Exclusion("sparse.sampled_addmm", "backward", SPARSE),
    Exclusion("sparse.sampled_addmm", "out", SPARSE),
    Exclusion("to_sparse", "forward", SPARSE),
    Exclusion("to_sparse", "backward", SPARSE),
)


def exclusions_for(entry: str, dtype: str, access: str) -> list[Exclusion]:
    return [e for e in EXCLUSIONS if e.applies(entry, dtype, access)]
