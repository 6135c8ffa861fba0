"""Communication by `host` beyond the contract's checks: wrong calls, and another process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from driver_support import DriverUnderTest, fails_with

from torch_outboard.check.communication import Rank, all_reduced, packed, synchronize
from torch_outboard.drivers import host
from torch_outboard.drivers.contract import CommunicationKind as Kind
from torch_outboard.drivers.contract import DType, Reduction, Status

# No other driver of this package communicates.
pytestmark = pytest.mark.host_only

MakeRanks = Callable[[int], list[Rank]]


@pytest.fixture
def make_ranks(driver: DriverUnderTest) -> Iterator[MakeRanks]:
    """Ranks of one communicator on device 0 until after the test."""
    driver.need("communicate")
    made: list[Rank] = []

    def make(count: int) -> list[Rank]:
        id = driver.communicator_id()
        made.extend(Rank(driver, id, rank, count) for rank in range(count))
        return made[-count:]

    yield make
    for rank in made:
        driver.communicator_destroy(rank.handle)


@pytest.mark.host_only(once=True)
def test_every_float16(make_ranks: MakeRanks) -> None:
    """Products of every bit pattern are rounded to the nearest, ties to even."""
    import numpy as np

    ranks = make_ranks(2)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for factor in (0.0, -1.0, 1 / 3, 2.0**-14, 2.0**15):
        given = [every, np.full_like(every, factor)]
        data = [values.tobytes() for values in given]
        result = all_reduced(ranks, data, every.size, DType.FLOAT16, Reduction.PRODUCT)
        found = np.frombuffer(result or b"", np.float16)
        with np.errstate(all="ignore"):
            wanted = np.multiply(*given)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


def test_wrong_arguments(driver: DriverUnderTest, make_ranks: MakeRanks) -> None:
    rank = make_ranks(2)[0]
    address = driver.make_memory(64)
    good = {"elements": 4, "source": address, "destination": address}
    for wrong in (
        {"elements": 0},
        {"elements": 2**62},
        {"source": 0},
        {"destination": 0},
        {"kind": Kind.BROADCAST, "peer": 2},
    ):
        fields = {"kind": Kind.ALL_REDUCE, **good, **wrong}
        with fails_with(Status.INVALID_ARGUMENT):
            rank.do(Kind(fields.pop("kind")), **fields)
    with fails_with(Status.UNSUPPORTED):
        rank.do(Kind.ALL_REDUCE, **good, dtype=0)
    with fails_with(Status.INVALID_ARGUMENT):
        driver.communicator_create(driver.communicator_id(), 0, 2, 2)


_OTHER_PROCESS = """
import sys, time
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import Client
from torch_outboard.drivers.contract import CommunicationKind as Kind

driver = Client(contract.load(sys.argv[1]))
id = contract.described(contract.CommunicatorId)
for data in sys.argv[2:]:
    id.data[:] = bytes.fromhex(data)
    try:
        communicator = driver.communicator_create(id, 0, 1, 2)
    except RuntimeError as error:
        print(error.status.name, flush=True)
queue, address = driver.queue_create(0), driver.allocate(0, 1 << 20)
driver.fill(queue, address, (5).to_bytes(4, "little"), 1 << 20)
driver.communicate(queue, communicator, Kind.ALL_REDUCE, dtype=contract.DType.INT32,
                   elements=1 << 18, source=address, destination=address, timeout=60000)
driver.queue_synchronize(queue)
driver.call("communicator_error", communicator)
print(driver.read(queue, address + (1 << 20) - 4, 4).hex(), flush=True)
time.sleep(600)
"""


@pytest.mark.by_turns(2)
@pytest.mark.host_only(once=True)
def test_another_process_that_is_killed(driver: DriverUnderTest) -> None:
    """It takes part, and its end is noticed long before the timeout; nothing is left in memory.

    Ids that cannot be reached, as from another machine, are refused before.
    """
    id = driver.communicator_id()
    files = len(os.listdir("/proc/self/fd"))
    rank = Rank(driver, id, 0, 2)
    address = driver.make_memory(1 << 20)
    driver.fill(rank.queue, address, packed([2]), 1 << 20)
    ids = [bytearray(id.data) for _ in range(4)]
    # Of key, process and file; the higher bytes of numbers, so that there is none of the number.
    for data, byte in zip(ids, (0, 18, 26), strict=False):
        data[byte] ^= 0x55
    command = [sys.executable, "-c", _OTHER_PROCESS, host.library_path(), *(i.hex() for i in ids)]
    other_memory = {"OUTBOARD_HOST_ACCESS": "separate", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment = os.environ | other_memory
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
        try:
            rank.all_reduce(address, elements=1 << 18)
            assert other.stdout is not None
            said = [other.stdout.readline().strip() for _ in range(4)]
            assert said == ["UNSUPPORTED"] * 3 + [packed([7]).hex()]
            synchronize([rank])
            rank.all_reduce(address, elements=1 << 18)
            time.sleep(0.1)
        finally:
            other.send_signal(signal.SIGKILL)
        start = time.monotonic()
        driver.queue_synchronize(rank.queue)
        assert time.monotonic() - start < 30
        assert "1" in (rank.error() or "")
    driver.communicator_destroy(rank.handle)
    assert len(os.listdir("/proc/self/fd")) <= files
    assert not [name for name in os.listdir("/dev/shm") if "outboard" in name]
