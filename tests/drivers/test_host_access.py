"""In separate memory, a host that touches a device address is stopped at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

# One process per kind of access, forked before the driver is in use.
TOUCH = """
import ctypes, os
from torch_outboard.drivers import contract, host
from torch_outboard.drivers.client import Client

def touch(how):
    driver = Client(contract.load(host.library_path()))
    queue = driver.queue_create(0)
    address = driver.allocate(0, 1 << 20)
    driver.fill(queue, address, b"x", 1 << 20)
    if driver.read(queue, address, 3) != b"xxx":
        os._exit(1)
    if how == "read":
        ctypes.string_at(address + 4096, 1)
    elif how == "write":
        ctypes.memset(address, 0, 1)
    elif how == "freed":
        driver.deallocate(0, address)
        ctypes.string_at(address, 1)
    os._exit(0)

for how in ("nothing", "read", "write", "freed"):
    child = os.fork()
    if child == 0:
        touch(how)
    print(how, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

FAULT = -signal.SIGSEGV
SEPARATE = {"nothing": 0, "read": FAULT, "write": FAULT, "freed": FAULT}
SHARED = {"nothing": 0, "read": 0, "write": 0, "freed": 0}


@pytest.mark.by_turns(2)
@pytest.mark.parametrize(("access", "expected"), [("separate", SEPARATE), ("shared", SHARED)])
def test_touching_a_device_address(access: str, expected: dict[str, int]) -> None:
    environment = {"OUTBOARD_HOST_ACCESS": access, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    printed = subprocess.check_output(
        [sys.executable, "-c", TOUCH], env=os.environ | environment, text=True, timeout=120
    )
    found = dict(line.split() for line in printed.splitlines())
    assert {how: int(status) for how, status in found.items()} == expected
