"""Each lie of a driver is answered by a sentence, where it crashed or was believed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support import run_python

TABLE = "RuntimeError: device 'host' is not available: the driver's table "
DEVICE = "RuntimeError: driver 'host' cannot be used: it says that device 0 "
COPIES = (
    "AcceleratorError: driver 'host' answered error to `allocate`: it answered OK to copies to the "
    "device, on it and back to the host, and other bytes came back than were sent"
)


def answer(function: str) -> str:
    return f"AcceleratorError: driver 'host' answered error to `{function}`: it "


EXPECTED = {
    "nothing": "returned [2.0, 2.0, 2.0]",
    "no name": TABLE + "lacks `name`",
    "empty name": TABLE + "lacks `name`",
    "name in Latin-1": TABLE + "has a `name` that is not UTF-8",
    "half a field": TABLE + "says it has 292 bytes, which ends within a field",
    "no address of a table": TABLE + "does not lie in memory that can be read",
    "pinned memory that stays": TABLE + "has `host_allocate` and lacks `host_deallocate`",
    "half of the graphs": TABLE + "has `graph_begin` and lacks `graph_launch`",
    "half of the registration": TABLE + "has `host_register` and lacks `host_unregister`",
    "half of the communication": TABLE + "has `communicator_id` and lacks `communicator_abort`",
    "half of the mapping": TABLE + "has `address_reserve` and lacks `address_release`",
    "half of the sharing": TABLE + "has `memory_export` and lacks `memory_close`",
    "addressing": DEVICE + "has addressing 7, and there are 0 (pointers) and 1 (handles)",
    "host access": DEVICE + "has host access -3, and there are 0 (none) and 1 (coherent)",
    "no memory": DEVICE + "has 0 bytes of memory",
    "negative memory": DEVICE + "has 18446744073709551615 bytes of memory, more than any device",
    "allocations beyond the memory": DEVICE + "gives up to 2147483648 bytes in one allocation",
    "alignment": DEVICE + "aligns memory to 48 bytes, which is no power of two",
    "compute units": DEVICE + "has 4294967295 compute units, more than any device",
    "vectors": DEVICE + "prefers vectors of 2147483648 numbers, more than any device",
    "sub-groups": DEVICE + "has sub-groups of 16 work items in work groups of up to 8",
    "granularity": DEVICE + "maps memory in multiples of 3145728 bytes, and has `memory_map`",
    "no granularity": DEVICE + "maps memory in multiples of 0 bytes, and has `memory_map`",
    "priorities": DEVICE + "has queues of priorities from 3 (most urgent) to -1 (least urgent)",
    "many priorities": DEVICE + "has queues of priorities from -1 to 2147483647",
    "past the struct": "RuntimeError: driver 'host' wrote past the properties of device 0: it was",
    "names in Latin-1": "returned ['chip ?\u00e9 ', 126, '??', '1???']",
    "a thousand devices": "returned 64",
    "negative devices": "RuntimeError: driver 'host' reports -3 devices",
    "wrapper is a FIFO": "RuntimeError: device 'host' is not available: the library /",
    "wrapper is cut off": "RuntimeError: device 'host' is not available: the library /",
    "null queue": answer("queue_create") + "answered OK and gave nothing",
    "null event": answer("event_create") + "answered OK and gave nothing",
    "null memory": answer("allocate") + "answered OK to `allocate` and gave no address",
    "null addresses": answer("address_reserve") + "answered OK and gave nothing",
    "same addresses twice": answer("memory_map") + "mapped memory that the host cannot touch",
    "memory that is not mapped": answer("memory_map") + "mapped memory that the host cannot touch",
    "null pinned memory": answer("host_allocate") + "answered OK and gave nothing",
    "copies to the device": COPIES,
    "copies from the device": COPIES,
    "copies on the device": COPIES,
    "same memory twice": answer("allocate") + "gave memory that is in use already, at 0x",
    "crooked memory": answer("allocate") + "gave memory that is not aligned as",
    "memory past the end": answer("allocate") + "gave memory that reaches past the last address",
    "more free than there is": answer("memory_info") + "says that 5 of 3 bytes are free",
    "no time": answer("event_elapsed") + "answered OK and a time of nan ms",
    "time of another clock": (
        answer("event_time") + "answered OK and a time of 12345 ns, and it is "
    ),
    "null descriptor": answer("memory_export") + "answered OK and gave no open descriptor",
    "closed descriptor": answer("memory_export") + "answered OK and gave no open descriptor",
    "null import": answer("memory_import") + "answered OK and gave nothing",
    "import of what is there": answer("memory_import") + "gave memory that is in use already",
    "null communicator": "returned ([1.0, 1.0, 1.0], 'it answered OK and gave nothing; ",
    "reset that does nothing": "returned [2.0, 2.0, 2.0]",
    "message in Latin-1": (
        "AcceleratorError: driver 'host' answered device lost to `queue_create`: kein Ger?t"
    ),
    "no message": (
        "AcceleratorError: driver 'host' answered device lost to `queue_create`: it gave no reason"
    ),
    "host access that faults": (
        answer("allocate") + "says that the host can touch the memory of the device"
    ),
    "host sees old values": (
        answer("allocate") + "says that host and device see each other's writes"
    ),
    "host memory is not device memory": (
        answer("allocate") + "says that any memory of the host is memory of the device"
    ),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    printed = run_python(
        "import json, tests.lying_drivers as drivers; print(json.dumps(drivers.run_all()))",
        OUTBOARD_DRIVER="host",
        OUTBOARD_HOST_ACCESS="shared",
        OUTBOARD_HOST_DEVICES="1",
        OUTBOARD_TORTURE=None,
        PYTHONPATH=str(Path(__file__).parents[1]),
    )
    outcomes: dict[str, str] = json.loads(printed.splitlines()[-1])
    return outcomes


@pytest.mark.by_turns(2)
def test_every_lie_is_told(outcomes):
    assert set(outcomes) == set(EXPECTED)


@pytest.mark.parametrize("lie", EXPECTED)
def test_lie(outcomes, lie):
    assert re.match(re.escape(EXPECTED[lie]), outcomes[lie]), outcomes[lie]
