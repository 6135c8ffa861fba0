"""One opened driver in the hands of a check: makes objects, and gives them back afterwards."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch_outboard.check.outcome import Failed, NotOffered, NotTestable
from torch_outboard.drivers import contract
from torch_outboard.drivers.client import Client, DriverError
from torch_outboard.drivers.contract import Status

# Bytes that checks allocate at once on a device, except for those of large sizes.
BUDGET = 64 << 20


class Session(Client):
    """A client that remembers what a check made, and which functions are under way.

    Args:
        driver: a table that was not initialized before.
        wanted: the name or path by which others can open it; "" for none.
        on_call: called with the name of each function before it is called.
    """

    def __init__(
        self,
        driver: contract.Driver,
        wanted: str = "",
        on_call: Callable[[str], None] | None = None,
    ) -> None:
        self.wanted = wanted
        self._on_call = on_call
        self._queues: dict[int, int] = {}  # devices by queue
        self._binaries: dict[tuple[int, str], bytes] = {}  # by device and source
        self.under_way: dict[int, str] = {}  # functions by thread
        self._forget()
        super().__init__(driver)

    def _forget(self) -> None:
        self._made: list[tuple[str, int]] = []  # functions that end what a check made
        self._memory: list[tuple[int, int]] = []  # devices and addresses
        self._gates: list[threading.Event] = []
        self._programs: dict[tuple[int, str], int] = {}  # by device and source

    # ---- The driver

    @functools.cached_property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.device_count())

    @functools.cached_property
    def budget(self) -> int:
        """Bytes that can be allocated on a device at once."""
        properties = self.device_properties(0)
        most = int(properties.max_allocation or properties.total_memory)
        return BUDGET if most >= BUDGET else most // 2

    def need(self, *names: str) -> None:
        """Ends the check as not offered unless the driver has these functions."""
        for name in names:
            if not self.has(name):
                if name not in contract.OPTIONAL:
                    raise Failed("a function", "NULL", function=name)
                raise NotOffered(f"optional function `{name}` is missing")

    def need_devices(self, count: int) -> None:
        """Ends the check as not testable if there are fewer devices."""
        if count > self.devices:
            there = "one device" if self.devices == 1 else f"{self.devices} devices"
            raise NotTestable(f"the driver has {there}, and {count} are needed")

    def need_kernels(self) -> int:
        """The most work-items in a group; ends the check where devices run no code."""
        self.need("program_build", "program_release", "kernel_create", "kernel_release", "launch")
        most = int(self.device_properties(0).max_work_group_size)
        if most == 0:
            raise NotTestable("device 0 says that it runs no code (max_work_group_size 0)")
        return most

    def last_error(self) -> str:
        """The message of this thread's last failed call; "" for none."""
        message: bytes | None = self.driver.last_error(self.driver.context)
        return (message or b"").decode(errors="replace")

    def status(self, name: str, *arguments: Any) -> Status:
        self.need(name)
        if self._on_call is not None:
            self._on_call(name)
        thread = threading.get_ident()
        self.under_way[thread] = name
        try:
            return super().status(name, *arguments)
        finally:
            del self.under_way[thread]

    # ---- Objects that end with the check

    def make_queue(self, device: int = 0, priority: int = 0) -> int:
        """A queue that is destroyed after the check."""
        self.need_devices(device + 1)
        self._made.append(("queue_destroy", self.queue_create(device, priority)))
        return self._made[-1][1]

    def make_event(self, device: int = 0, timing: bool = False) -> int:
        """An event that is destroyed after the check."""
        self.need_devices(device + 1)
        self._made.append(("event_destroy", self.event_create(device, timing)))
        return self._made[-1][1]

    def make_memory(self, size: int, device: int = 0, shareable: bool = False) -> int:
        """Bytes that are allocated until after the check."""
        self.need_devices(device + 1)
        self._memory.append((device, self.allocate(device, size, shareable)))
        return self._memory[-1][1]

    def make_kernel(self, source: str, name: str, device: int = 0) -> int:
        """A kernel of a program that is compiled once; it is released after the check."""
        self.need_devices(device + 1)
        key = device, source
        if key not in self._programs:
            if self.has("program_load"):
                self._programs[key] = self.program_load(device, self.binary_of(source, device))
            else:
                self._programs[key] = self.program_build(device, source)
        self._made.append(("kernel_release", self.kernel_create(self._programs[key], name)))
        return self._made[-1][1]

    def binary_of(self, source: str, device: int = 0) -> bytes:
        """A program that is compiled once."""
        if (device, source) not in self._binaries:
            program = self.program_build(device, source)
            self._binaries[device, source] = self.program_binary(program)
            self.program_release(program)
        return self._binaries[device, source]

    def gate(self, queue: int, is_reached: bool = False) -> threading.Event:
        """Blocks a queue until the returned event is set, at the latest at the end of the check.

        Args:
            queue: the queue.
            is_reached: whether to return only when the queue has come there.
        """
        self.need("host_callback")
        reached, opened = threading.Event(), threading.Event()
        self._gates.append(opened)

        def wait() -> None:
            reached.set()
            opened.wait(60)

        self.host_callback(queue, wait)
        if is_reached and not happens(reached, 10):
            raise Failed("a call of the function", "none in 10 seconds", function="host_callback")
        return opened

    def let_go(self) -> None:
        """Ends what a check made by the methods above."""
        for opened in self._gates:
            opened.set()
        for device in {device for device, _ in self._memory}:
            self.device_synchronize(device)
        for device, address in self._memory:
            self.deallocate(device, address)
        for program in self._programs.values():
            self.program_release(program)
        for function, handle in reversed(self._made):
            getattr(self, function)(handle)
        self._forget()

    # ---- Functions with more than one form

    def queue_create(self, device: int, priority: int = 0) -> int:
        queue = super().queue_create(device, priority)
        self._queues[queue] = device
        return queue

    def device_of(self, queue: int) -> int:
        return self._queues[queue]

    def queue_destroy(self, queue: int) -> None:
        self._queues.pop(queue, None)
        self.call("queue_destroy", queue)

    def device_synchronize(self, device: int) -> None:
        """Waits for a device; if it must be for each queue, as the kit does."""
        if self.has("device_synchronize"):
            self.call("device_synchronize", device)
            return
        for queue, of_device in list(self._queues.items()):
            if of_device == device:
                self.call("queue_synchronize", queue)

    # ---- Expectations

    def refuses(self, status: Status, name: str, *arguments: Any) -> str:
        """Expects a status of a call, and a message; returns the message."""
        found = self.status(name, *arguments)
        asked = f"{status.name} for {name}({', '.join(map(_shown, arguments))})"
        if found != status:
            raise Failed(asked, found.name, function=name)
        message = self.last_error()
        if not message:
            raise Failed(
                f"a message with {asked}",
                "an empty one",
                function="last_error",
                says="On anything but OB_OK and OB_NOT_READY the driver keeps a message for the "
                "calling thread",
                advice="Store a sentence in thread-local memory before every such return.",
            )
        return message

    @contextlib.contextmanager
    def failing(self, status: Status, function: str, case: str) -> Iterator[None]:
        """Expects the call in the scope to fail with a status, and a message."""
        try:
            yield
        except DriverError as error:
            if error.status == status:
                return
            got = f"{error.status.name}: {error.message}"
            raise Failed(f"{status.name} for {case}", got, function=function) from error
        raise Failed(f"{status.name} for {case}", "OK", function=function)


def _shown(argument: Any) -> str:
    if isinstance(argument, int):
        return str(argument) if abs(argument) < 1 << 20 else hex(argument)
    return type(argument).__name__


def expect(condition: object, expected: str, got: object, **fields: str) -> None:
    """Ends the check as failed unless the condition holds; `fields` are those of `Failed`."""
    if not condition:
        raise Failed(expected, str(got), **fields)


def expect_equal(found: object, wanted: object, what: str, **fields: str) -> None:
    """Expects two values to be equal."""
    if found != wanted:
        raise Failed(f"{what}: {_short(wanted)}", _short(found), **fields)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def expect_bytes(found: bytes, wanted: bytes, what: str, **fields: str) -> None:
    """Expects the same bytes, and says where the first difference is."""
    if found == wanted:
        return
    low, high = 0, min(len(found), len(wanted))
    while low < high:  # the length of what both begin with
        middle = (low + high + 1) // 2
        if found[low:middle] == wanted[low:middle]:
            low = middle
        else:
            high = middle - 1
    raise Failed(
        f"{what}: {_hex(wanted, low)} at byte {low:,} of {len(wanted):,}",
        f"{_hex(found, low)}",
        **fields,
    )


def _hex(data: bytes, offset: int) -> str:
    return data[offset : offset + 8].hex(" ") or "the end"


def happens(event: threading.Event, seconds: float) -> bool:
    """Whether an event is set within a time; one in which this process is stopped hardly counts."""
    return any(event.wait(0.25) for _ in range(int(4 * seconds)))


def ends(thread: threading.Thread, seconds: float) -> bool:
    """The same for the end of a thread."""
    for _ in range(int(4 * seconds)):
        thread.join(0.25)
        if not thread.is_alive():
            return True
    return False


def expect_within(
    work: Callable[[], object], opened: threading.Event, function: str, **fields: str
) -> None:
    """Expects a call to return while a gate is closed, and opens the gate."""
    done = threading.Event()
    problem: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            problem.append(error)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    returned = happens(done, 5)
    opened.set()
    happens(done, 30)
    if problem:
        raise problem[0]
    expect(
        returned,
        f"`{function}` to return while the queue is blocked",
        "no return within 5 seconds, until the queue went on",
        function=function,
        **fields,
    )


def in_threads(
    work: Callable[[int], object], count: int, together: threading.Barrier | None = None
) -> list[Any]:
    """Results of `work` for each number below `count`, at once in as many threads.

    Args:
        work: gets the number.
        count: of threads.
        together: a barrier at which they meet again; it breaks when one of them fails.

    Raises:
        Exception: what the first of them raised.
    """
    together = together or threading.Barrier(count)
    results: list[Any] = [None] * count
    problems: list[Exception] = []

    def begin(number: int) -> None:
        try:
            together.wait(60)
            results[number] = work(number)
        except Exception as error:
            problems.append(error)
            together.abort()

    threads = [threading.Thread(target=begin, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return results
