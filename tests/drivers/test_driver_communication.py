"""Communication by the driver: between ranks of one process, and of two."""

import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from driver_support import DriverUnderTest, assert_bytes, fails_with

from torch_outboard.drivers import contract, host
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import CommunicationKind as Kind
from torch_outboard.drivers.contract import DType, Reduction, Status

# No other driver of this package communicates.
pytestmark = pytest.mark.host_only(unless_external=True)

# More than what goes at once, and not a multiple of it.
MANY = 300_001


class Rank:
    """One end of a communicator with a separate queue."""

    def __init__(
        self, driver: DriverUnderTest, id: contract.CommunicatorId, rank: int, ranks: int
    ) -> None:
        self.driver, self.rank, self.queue = driver, rank, driver.make_queue()
        self.handle = driver.communicator_create(id, 0, rank, ranks)

    def do(self, kind: Kind, **fields: int) -> None:
        self.driver.communicate(
            self.queue, self.handle, kind, **{"dtype": DType.INT32, "timeout": 60_000, **fields}
        )

    def all_reduce(self, address: int, elements: int = 1, **fields: int) -> None:
        where = {"source": address, "destination": address}
        self.do(Kind.ALL_REDUCE, elements=elements, **where, **fields)

    def error(self) -> str | None:
        if self.driver.status("communicator_error", self.handle) == Status.OK:
            return None
        return self.driver.last_error()


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


def packed(values: Sequence[int]) -> bytes:
    return struct.pack(f"{len(values)}i", *values)


def counted(factor: int, elements: int) -> bytes:
    """Multiples of a factor from 0 to 99, again and again."""
    once = packed([factor * i for i in range(100)])
    return (once * (elements // 100 + 1))[: 4 * elements]


def synchronize(ranks: Sequence[Rank]) -> None:
    for rank in ranks:
        rank.driver.queue_synchronize(rank.queue)
        assert rank.error() is None


@pytest.mark.parametrize(("count", "elements"), [(1, 1), (3, 1), (3, MANY)])
def test_collectives(
    driver: DriverUnderTest, make_ranks: MakeRanks, count: int, elements: int
) -> None:
    ranks = make_ranks(count)
    size = 4 * elements
    given = [counted(r + 1, elements) for r in range(count)]
    total = counted(sum(range(count + 1)), elements)
    source = [driver.make_memory(size * count) for _ in ranks]
    out = [driver.make_memory(size * count) for _ in ranks]

    def all_do(kind: Kind, peer: int = 0, **fields: int) -> None:
        for rank in ranks:
            driver.fill(rank.queue, out[rank.rank], b"\xff", size * count)
            wanted = {"source": source[rank.rank], "destination": out[rank.rank], **fields}
            rank.do(kind, elements=elements, peer=peer, **wanted)
        synchronize(ranks)

    def result(rank: int, length: int = size) -> bytes:
        return driver.read(ranks[rank].queue, out[rank], length)

    root, untouched = count - 1, b"\xff" * size
    for rank in ranks:
        driver.write(rank.queue, source[rank.rank], given[rank.rank])
    all_do(Kind.ALL_REDUCE)
    for r in range(count):
        assert_bytes(result(r), total)
    all_do(Kind.REDUCE, peer=root)
    for r in range(count):
        assert_bytes(result(r), total if r == root else untouched)
    all_do(Kind.BROADCAST, peer=root)
    for r in range(count):
        assert_bytes(result(r), given[root])
    all_do(Kind.ALL_GATHER)
    for r in range(count):
        assert_bytes(result(r, size * count), b"".join(given))
    # Of each rank a part of the sum: every rank gives the parts of all in their order.
    for rank in ranks:
        driver.write(rank.queue, source[rank.rank], b"".join(given))
    all_do(Kind.REDUCE_SCATTER)
    for r in range(count):
        assert_bytes(result(r), counted(count * (r + 1), elements))
    # In place.
    for rank in ranks:
        driver.write(rank.queue, out[rank.rank], given[rank.rank])
        rank.all_reduce(out[rank.rank], elements)
    synchronize(ranks)
    assert_bytes(result(root), total)


def all_reduced(
    ranks: Sequence[Rank],
    given: Sequence[bytes],
    elements: int,
    dtype: DType,
    reduction: Reduction = Reduction.SUM,
) -> bytes | None:
    """The result of all ranks; None where the driver refuses the dtype, and then on all ranks."""
    driver, size = ranks[0].driver, len(given[0])
    memory = [driver.make_memory(size) for _ in ranks]
    answers = set()
    for rank, address, data in zip(ranks, memory, given, strict=True):
        driver.write(rank.queue, address, data)
        try:
            rank.all_reduce(address, elements, reduction=reduction, dtype=dtype)
            answers.add(Status.OK)
        except DriverError as error:
            answers.add(error.status)
    assert answers in ({Status.OK}, {Status.UNSUPPORTED}), dtype
    if answers == {Status.UNSUPPORTED}:
        return None
    synchronize(ranks)
    found = [driver.read(r.queue, a, size) for r, a in zip(ranks, memory, strict=True)]
    assert len(set(found)) == 1, dtype
    return found[0]


@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (Reduction.SUM, 6.0),
        (Reduction.PRODUCT, 6.0),
        (Reduction.MINIMUM, 1.0),
        (Reduction.MAXIMUM, 3.0),
        (Reduction.AVERAGE, 2.0),
    ],
)
def test_reductions(
    driver: DriverUnderTest, make_ranks: MakeRanks, reduction: Reduction, wanted: float
) -> None:
    formats = {
        DType.FLOAT32: "f", DType.FLOAT64: "d", DType.FLOAT16: "e", DType.INT8: "b",
        DType.UINT8: "B", DType.INT16: "h", DType.UINT16: "H", DType.INT32: "i",
        DType.UINT32: "I", DType.INT64: "q", DType.UINT64: "Q", DType.BOOL: "?",
    }  # fmt: skip
    ranks, done = make_ranks(3), []
    for dtype, letter in formats.items():
        kind, number = f"301{letter}", float if letter in "fde" else int
        given = [struct.pack(kind, *[number(rank + 1)] * 301) for rank in range(3)]
        found = all_reduced(ranks, given, 301, dtype, reduction)
        if found is not None:
            assert struct.unpack(kind, found) == (number(wanted),) * 301, dtype
            done.append(dtype)
    assert DType.FLOAT32 in done


@pytest.mark.parametrize(
    ("dtype", "given", "wanted"),
    [
        # 256 + 1 + 1, which by sums of bfloat16 would be 256.
        (DType.BFLOAT16, (0x4380, 0x3F80, 0x3F80), 0x4381),
        # 2048 + 1 + 1, which by sums of float16 would be 2048.
        (DType.FLOAT16, (0x6800, 0x3C00, 0x3C00), 0x6801),
    ],
)
def test_floats_of_16_bits_are_added_up_in_float32(
    make_ranks: MakeRanks, dtype: DType, given: tuple[int, int, int], wanted: int
) -> None:
    data = [struct.pack("300H", *[bits] * 300) for bits in given]
    found = all_reduced(make_ranks(3), data, 300, dtype)
    if found is None:
        pytest.skip(f"the driver does not reduce {dtype.name}")
    assert found == struct.pack("300H", *[wanted] * 300)


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


def test_messages_of_a_group_wait_for_no_other_of_it(
    driver: DriverUnderTest, make_ranks: MakeRanks
) -> None:
    """Each sends to each, itself included, before it receives, more than buffers hold."""
    ranks = make_ranks(3)
    size = 4 * MANY
    out = [driver.make_memory(size) for _ in ranks]
    received = [[driver.make_memory(size) for _ in ranks] for _ in ranks]
    for rank in ranks:
        driver.fill(rank.queue, out[rank.rank], packed([rank.rank + 7]), size)
        driver.call("communication_begin")
        for other in range(3):
            rank.do(Kind.SEND, peer=other, elements=MANY, source=out[rank.rank])
        for other in range(3):
            into = received[rank.rank][other]
            rank.do(Kind.RECEIVE, peer=other, elements=MANY, destination=into)
        driver.call("communication_end")
    synchronize(ranks)
    for r, row in enumerate(received):
        for other, address in enumerate(row):
            assert_bytes(driver.read(ranks[r].queue, address, size), packed([other + 7] * MANY))


def test_a_group_with_a_refused_call_does_nothing(
    driver: DriverUnderTest, make_ranks: MakeRanks
) -> None:
    (rank,), address = make_ranks(1), driver.make_memory(64)
    driver.write(rank.queue, address, bytes(64))
    driver.call("communication_begin")
    rank.do(Kind.ALL_REDUCE, elements=1, source=address + 32, destination=address)
    wanted = contract.described(
        contract.Communication, reduction=99, dtype=DType.FLOAT32, elements=1, source=address,
        destination=address,
    )  # fmt: skip
    status = driver.status("communicate", rank.queue, rank.handle, ctypes.byref(wanted))
    assert status == Status.UNSUPPORTED
    assert driver.status("communication_end") == Status.UNSUPPORTED
    synchronize([rank])
    rank.all_reduce(address)
    synchronize([rank])


def test_ranks_that_do_not_come_together(driver: DriverUnderTest, make_ranks: MakeRanks) -> None:
    first, second = make_ranks(2)
    address = driver.make_memory(64)
    start = time.monotonic()
    first.all_reduce(address, timeout=300)
    driver.queue_synchronize(first.queue)
    assert 0.2 < time.monotonic() - start < 30
    assert "1" in (first.error() or "")
    # The other learns of it, and both stay as they are.
    second.all_reduce(address)
    driver.queue_synchronize(second.queue)
    assert second.error() is not None
    first.all_reduce(address)
    driver.queue_synchronize(first.queue)
    assert first.error() is not None
    # Both come, for different things.
    ranks = make_ranks(2)
    for rank in ranks:
        rank.all_reduce(address, 10 + rank.rank, timeout=20_000)
    for rank in ranks:
        driver.queue_synchronize(rank.queue)
        assert rank.error() is not None


@pytest.mark.parametrize("end", ["communicator_abort", "communicator_destroy"])
def test_abort_and_destroy_end_pending_work(driver: DriverUnderTest, end: str) -> None:
    driver.need("communicate")
    id = driver.communicator_id()
    ranks = [Rank(driver, id, r, 2) for r in range(2)]
    address = driver.make_memory(64)
    ranks[0].all_reduce(address, timeout=0)
    time.sleep(0.05)
    assert not driver.queue_query(ranks[0].queue)
    driver.call(end, ranks[0].handle)
    driver.queue_synchronize(ranks[0].queue)
    ranks[1].all_reduce(address, timeout=0)
    driver.queue_synchronize(ranks[1].queue)
    assert ranks[1].error() is not None
    driver.communicator_destroy(ranks[1].handle)
    if end == "communicator_abort":
        driver.communicator_destroy(ranks[0].handle)


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
