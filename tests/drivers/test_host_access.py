"""A host that touches an address of a device, where that is no memory of its own, is stopped."""

import signal

import pytest
from driver_support import OCL, reason_without_opencl

from tests.support import run_python

# One process per kind of access, forked before the driver is in use.
TOUCH = """
import ctypes, importlib, os, sys
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import Client

module = importlib.import_module(f"torch_outboard.drivers.{sys.argv[1]}")

def touch(how):
    driver = Client(contract.load(module.library_path()))
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

for how in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        touch(how)
    print(how, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("driver", ["host", "ocl"])
def test_touching_a_device_address(driver: str) -> None:
    touches = ["read", "write"]
    if driver == "host":
        settings = {"OUTBOARD_HOST_ACCESS": "separate"}
        touches.append("freed")
    else:
        if reason := reason_without_opencl("handles"):
            pytest.skip(reason)
        settings = {**OCL, "OUTBOARD_OCL_MEMORY": "handles"}
    printed = run_python(TOUCH, driver, "nothing", *touches, **settings)
    found = {how: int(code) for how, code in (line.split() for line in printed.splitlines())}
    assert found == {"nothing": 0, **dict.fromkeys(touches, -signal.SIGSEGV)}
