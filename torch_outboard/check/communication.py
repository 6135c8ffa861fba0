"""Communication by the driver, between ranks of one process."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Sequence

from torch_outboard.check.catalog import check
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session, expect, expect_bytes, expect_equal
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import DriverError
from torch_outboard.drivers.contract import CommunicationKind as Kind
from torch_outboard.drivers.contract import DType, Reduction, Status

# More than what goes at once, and not a multiple of it.
MANY = 300_001
FORMATS = {
    DType.FLOAT32: "f", DType.FLOAT64: "d", DType.FLOAT16: "e", DType.INT8: "b",
    DType.UINT8: "B", DType.INT16: "h", DType.UINT16: "H", DType.INT32: "i",
    DType.UINT32: "I", DType.INT64: "q", DType.UINT64: "Q", DType.BOOL: "?",
}  # fmt: skip
SAME_ORDER = (
    "Enqueues one piece of work, which all ranks (of a message: both) enqueue in the same order."
)
ADVICE = "Leave the functions of communication NULL until this works: the host then communicates."


class Rank:
    """One end of a communicator with a separate queue."""

    def __init__(self, driver: Session, id: contract.CommunicatorId, rank: int, ranks: int) -> None:
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


def make_ranks(driver: Session, count: int) -> list[Rank]:
    """Ranks of one communicator on device 0, until `destroy`."""
    id = driver.communicator_id()
    return [Rank(driver, id, rank, count) for rank in range(count)]


def destroy(ranks: Sequence[Rank]) -> None:
    for rank in ranks:
        rank.driver.communicator_destroy(rank.handle)


def synchronize(ranks: Sequence[Rank]) -> None:
    for rank in ranks:
        rank.driver.queue_synchronize(rank.queue)
        error = rank.error()
        expect(error is None, f"no error of rank {rank.rank}", error, function="communicator_error")


def packed(values: Sequence[int]) -> bytes:
    return struct.pack(f"{len(values)}i", *values)


def counted(factor: int, elements: int) -> bytes:
    """Multiples of a factor from 0 to 99, again and again."""
    once = packed([factor * i for i in range(100)])
    return (once * (elements // 100 + 1))[: 4 * elements]


class _Group:
    """Ranks with a source and a destination each."""

    def __init__(self, driver: Session, count: int, elements: int) -> None:
        self.driver, self.count, self.elements = driver, count, elements
        self.ranks, self.size = make_ranks(driver, count), 4 * elements
        self.given = [counted(r + 1, elements) for r in range(count)]
        self.source = [driver.make_memory(self.size * count) for _ in self.ranks]
        self.out = [driver.make_memory(self.size * count) for _ in self.ranks]

    def give(self, data: Sequence[bytes]) -> None:
        for rank, each in zip(self.ranks, data, strict=True):
            self.driver.write(rank.queue, self.source[rank.rank], each)

    def all_do(self, kind: Kind, peer: int = 0) -> None:
        for rank in self.ranks:
            self.driver.fill(rank.queue, self.out[rank.rank], b"\xff", self.size * self.count)
            where = {"source": self.source[rank.rank], "destination": self.out[rank.rank]}
            rank.do(kind, elements=self.elements, peer=peer, **where)
        synchronize(self.ranks)

    def expect(self, kind: Kind, wanted: Sequence[bytes]) -> None:
        for rank, each in zip(self.ranks, wanted, strict=True):
            found = self.driver.read(rank.queue, self.out[rank.rank], len(each))
            expect_bytes(found, each, f"{kind.name} of {self.count} ranks, rank {rank.rank}")


@check("communicate", says=SAME_ORDER, advice=ADVICE, seconds=60)
def collectives(driver: Session) -> None:
    """Every collective, of one rank and of three, of one element and of many."""
    for count, elements in ((1, 1), (3, 1), (3, MANY)):
        group = _Group(driver, count, elements)
        total = counted(sum(range(count + 1)), elements)
        root, untouched = count - 1, b"\xff" * group.size
        group.give(group.given)
        group.all_do(Kind.ALL_REDUCE)
        group.expect(Kind.ALL_REDUCE, [total] * count)
        group.all_do(Kind.REDUCE, peer=root)
        group.expect(Kind.REDUCE, [*[untouched] * root, total])
        group.all_do(Kind.BROADCAST, peer=root)
        group.expect(Kind.BROADCAST, [group.given[root]] * count)
        group.all_do(Kind.ALL_GATHER)
        group.expect(Kind.ALL_GATHER, [b"".join(group.given)] * count)
        group.give([b"".join(group.given)] * count)
        group.all_do(Kind.REDUCE_SCATTER)
        parts = [counted(count * (r + 1), elements) for r in range(count)]
        group.expect(Kind.REDUCE_SCATTER, parts)
        for rank in group.ranks:  # in place
            driver.write(rank.queue, group.out[rank.rank], group.given[rank.rank])
            rank.all_reduce(group.out[rank.rank], elements)
        synchronize(group.ranks)
        group.expect(Kind.ALL_REDUCE, [total] * count)
        destroy(group.ranks)


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
    case = f"{reduction.name} of {dtype.name}"
    same = answers in ({Status.OK}, {Status.UNSUPPORTED})
    expect(same, f"{case}: OK or UNSUPPORTED, the same on all ranks", answers)
    if answers == {Status.UNSUPPORTED}:
        return None
    synchronize(ranks)
    found = [driver.read(r.queue, a, size) for r, a in zip(ranks, memory, strict=True)]
    expect_equal(len(set(found)), 1, f"{case}: results of all ranks that differ")
    return found[0]


@check("communicate", says="all ranks get the same bits", advice=ADVICE, seconds=60)
def reductions(driver: Session) -> None:
    """Every reduction of every dtype that the driver takes."""
    ranks, done = make_ranks(driver, 3), []
    results = {"SUM": 6.0, "PRODUCT": 6.0, "MINIMUM": 1.0, "MAXIMUM": 3.0, "AVERAGE": 2.0}
    for name, wanted in results.items():
        reduction = Reduction[name]
        for dtype, letter in FORMATS.items():
            kind, number = f"301{letter}", float if letter in "fde" else int
            given = [struct.pack(kind, *[number(rank + 1)] * 301) for rank in range(3)]
            found = all_reduced(ranks, given, 301, dtype, reduction)
            if found is None:
                continue
            values = struct.unpack(kind, found)
            right = (bool(wanted) if letter == "?" else number(wanted),) * 301
            expect(values == right, f"{name} of {dtype.name}: {right[0]}", values[0])
            done.append(dtype)
    destroy(ranks)
    expect(DType.FLOAT32 in done, "float32 among the dtypes", "UNSUPPORTED")


@check(
    "communicate",
    says="Floating point of 16 bits is added up in 32 or better",
    advice="Convert to float32, add, and round once.",
)
def sums_of_short_floats(driver: Session) -> None:
    """Sums of float16 and bfloat16 are rounded once."""
    # 256 + 1 + 1 and 2048 + 1 + 1, which by sums of 16 bits would be 256 and 2048.
    cases = (
        (DType.BFLOAT16, (0x4380, 0x3F80, 0x3F80), 0x4381),
        (DType.FLOAT16, (0x6800, 0x3C00, 0x3C00), 0x6801),
    )
    ranks, done = make_ranks(driver, 3), 0
    for dtype, given, wanted in cases:
        data = [struct.pack("300H", *[bits] * 300) for bits in given]
        found = all_reduced(ranks, data, 300, dtype)
        if found is not None:
            done += 1
            expect_bytes(found, struct.pack("300H", *[wanted] * 300), f"a sum of {dtype.name}")
    destroy(ranks)
    if not done:
        raise NotTestable("the driver reduces neither float16 nor bfloat16")


@check(
    "communication_begin",
    says="messages in it wait for no other of it",
    advice="Send and receive in turns, or on threads of their own.",
)
def messages_of_a_group(driver: Session) -> None:
    """Each rank sends to each, itself included, before it receives, more than buffers hold."""
    ranks, size = make_ranks(driver, 3), 4 * MANY
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
            found = driver.read(ranks[r].queue, address, size)
            expect_bytes(found, packed([other + 7] * MANY), f"from rank {other} to {r}")
    destroy(ranks)


@check(
    "communication_end",
    says="If a call of it failed, communication_end enqueues nothing and answers the same.",
    advice="Note the first failure of a group, and drop its work at the end.",
)
def a_group_with_a_refused_call(driver: Session) -> None:
    """A group of which a call was refused does nothing."""
    (rank,), address = make_ranks(driver, 1), driver.make_memory(64)
    driver.write(rank.queue, address, bytes(64))
    driver.call("communication_begin")
    rank.do(Kind.ALL_REDUCE, elements=1, source=address + 32, destination=address)
    wanted = contract.described(
        contract.Communication, reduction=99, dtype=DType.FLOAT32, elements=1, source=address,
        destination=address,
    )  # fmt: skip
    status = driver.status("communicate", rank.queue, rank.handle, ctypes.byref(wanted))
    expect(status == Status.UNSUPPORTED, "UNSUPPORTED for reduction 99", status.name)
    status = driver.status("communication_end")
    expect(status == Status.UNSUPPORTED, "UNSUPPORTED", status.name)
    synchronize([rank])
    rank.all_reduce(address)
    synchronize([rank])
    destroy([rank])


@check(
    "communicator_error",
    says="OB_OK, or the first failure of work of this communicator, for ever",
    advice="Keep the first failure in the communicator, with rank and kind.",
    seconds=90,
)
def ranks_that_do_not_come_together(driver: Session) -> None:
    """A rank that does not come, or comes with something else, is an error of all."""
    first, second = early = make_ranks(driver, 2)
    address = driver.make_memory(64)
    start = time.monotonic()
    first.all_reduce(address, timeout=300)
    driver.queue_synchronize(first.queue)
    waited = time.monotonic() - start
    expect(waited > 0.2, "a wait of 0.3 seconds", f"{waited:.2f} seconds")
    expect("1" in (first.error() or ""), "an error that names rank 1", first.error())
    # The other learns of it, and both stay as they are.
    for rank in (second, first):
        rank.all_reduce(address)
        driver.queue_synchronize(rank.queue)
        expect(rank.error() is not None, f"an error of rank {rank.rank}", "OK")
    ranks = make_ranks(driver, 2)  # both come, for different things
    for rank in ranks:
        rank.all_reduce(address, 10 + rank.rank, timeout=20_000)
    for rank in ranks:
        driver.queue_synchronize(rank.queue)
        expect(rank.error() is not None, f"an error of rank {rank.rank}", "OK")
    destroy([*early, *ranks])


@check(
    "communicator_abort",
    says="Ends pending work, here and on the other ranks as soon as they can learn of it",
    advice="Wake waiting work by a flag in the communicator.",
    seconds=60,
)
def abort_and_destroy(driver: Session) -> None:
    """Abort and destruction end pending work on all ranks."""
    for end in ("communicator_abort", "communicator_destroy"):
        ranks, address = make_ranks(driver, 2), driver.make_memory(64)
        ranks[0].all_reduce(address, timeout=0)
        time.sleep(0.05)
        waits = not driver.queue_query(ranks[0].queue)
        expect(waits, "work that waits for rank 1", "an idle queue", function="communicate")
        driver.call(end, ranks[0].handle)
        driver.queue_synchronize(ranks[0].queue)
        ranks[1].all_reduce(address, timeout=0)
        driver.queue_synchronize(ranks[1].queue)
        expect(ranks[1].error() is not None, "an error of rank 1", "OK", function=end)
        driver.communicator_destroy(ranks[1].handle)
        if end == "communicator_abort":
            driver.communicator_destroy(ranks[0].handle)
