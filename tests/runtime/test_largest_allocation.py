"""A device that has the memory, but does not give as much in one piece."""

from __future__ import annotations

from tests.support import run_python

PROGRAM = """
    import ctypes
    import torch, torch_outboard
    from torch_outboard import _C
    from torch_outboard.drivers import contract, host
    from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

    LARGEST = 64 << 20
    original = contract.load(host.library_path())
    table = Driver.from_buffer_copy(original)

    def device_properties(context, device, properties):
        status = original.device_properties(context, device, properties)
        properties.contents.max_allocation = LARGEST
        return status

    def allocate(context, wanted, address):
        if wanted.contents.bytes > LARGEST:
            return Status.OUT_OF_MEMORY
        return original.allocate(context, wanted, address)

    table.device_properties = FUNCTIONS["device_properties"](device_properties)
    table.allocate = FUNCTIONS["allocate"](allocate)
    _C.use_driver_table("host", ctypes.addressof(table))

    torch.empty(LARGEST, dtype=torch.uint8, device="host")
    try:
        torch.empty(LARGEST + 1, dtype=torch.uint8, device="host")
    except torch.OutOfMemoryError as error:
        print(error)
    # What is refused for another reason says nothing of that.
    kept = []
    try:
        while True:
            kept.append(torch.empty(LARGEST, dtype=torch.uint8, device="host"))
    except torch.OutOfMemoryError as error:
        assert "in one piece" not in str(error), error
"""


def test_the_error_names_the_largest_allocation():
    printed = run_python(PROGRAM, OUTBOARD_DRIVER="host", OUTBOARD_HOST_MEMORY=str(256 << 20))
    assert "64.00 MiB were asked for" in printed
    assert "at most 64.00 MiB in one piece" in printed
    assert "256.00 MiB" in printed
