"""The table itself: version, mandatory functions, groups of functions."""

from __future__ import annotations

import ctypes

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import Failed
from torch_outboard.check.session import Session, expect, expect_equal, in_threads
from torch_outboard.drivers import contract

# Functions of which a driver has all or none.
TOGETHER = (
    ("host_allocate", "host_deallocate"),
    ("program_build", "program_release", "kernel_create", "kernel_release", "launch"),
    ("program_binary", "program_load"),
    ("graph_begin", "graph_end", "graph_launch", "graph_release"),
    ("host_register", "host_unregister"),
    ("memory_export", "memory_import", "memory_close"),
    ("address_reserve", "address_release", "memory_map", "memory_unmap"),
    (
        *("communicator_id", "communicator_create", "communicator_destroy"),
        *("communicator_abort", "communicator_error", "communicate"),
        *("communication_begin", "communication_end"),
    ),
)


@check(
    says="The table starts with the version of the header that the driver was compiled with.",
    advice="Set major, minor, struct_size and name as drivers/host/host.c does.",
)
def version_and_name(driver: Session) -> None:
    """Version, size and name of the table are those of a driver."""
    table = driver.driver
    expect_equal(table.major, contract.VERSION_MAJOR, "major")
    least = contract.Driver.fill.offset + ctypes.sizeof(ctypes.c_void_p)
    expect(table.struct_size >= least, f"struct_size of {least} or more", table.struct_size)
    name = table.name
    expect(name, "a name", repr(name))
    try:
        name.decode()
    except UnicodeDecodeError:
        raise Failed("a name in UTF-8", repr(name)) from None


@check(
    says="Optional. A field marked (optional) may be NULL; its comment says what happens then. "
    "All others must be there.",
    advice="Implement the function; the minimal driver of the documents has all of these.",
)
def mandatory_functions(driver: Session) -> None:
    """All functions that are not optional are there."""
    for name in contract.FUNCTIONS:
        if name not in contract.OPTIONAL:
            expect(driver.has(name), f"`{name}`", "NULL", function=name)


@check(
    says="its comment says what happens then",
    advice="Set all functions of the group, or leave all of them NULL.",
)
def groups_are_whole(driver: Session) -> None:
    """Functions that belong together are all there or all missing."""
    for group in TOGETHER:
        missing = [name for name in group if not driver.has(name)]
        if missing and len(missing) < len(group):
            there = next(name for name in group if name not in missing)
            expect(False, f"`{missing[0]}` beside `{there}`", "NULL", function=missing[0])


@check(
    "device_count",
    says="The message of the calling thread's last failed call; never NULL",
    advice="Return an empty string where nothing failed before.",
)
def last_error_without_failure(driver: Session) -> None:
    """`last_error` is a string before any failure, in every thread."""

    def ask(_: int = 0) -> bytes | None:
        message: bytes | None = driver.driver.last_error(driver.driver.context)
        return message

    for message in (ask(), *in_threads(ask, 1)):
        expect(message is not None, "a string", "NULL", function="last_error")
