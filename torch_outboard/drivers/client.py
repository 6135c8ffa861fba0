"""A client that calls a driver from Python without PyTorch, for tests and experiments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import AllocationFlag, ArgumentKind, EventFlag, Status


class DriverError(RuntimeError):
    """A call of a driver failed.

    Attributes:
        function: the name of the function.
        status: the status that the call returned.
        message: the driver's message.
    """

    def __init__(self, function: str, status: Status, message: str) -> None:
        super().__init__(f"{function}: {status.name}: {message}")
        self.function, self.status, self.message = function, status, message


@dataclass(frozen=True)
class Local:
    """A kernel's argument: `size` bytes of local memory."""

    size: int


def _python_value(result: Any) -> Any:
    """A struct, or a number; that of a null pointer is 0."""
    return result if isinstance(result, ctypes.Structure) else result.value or 0


class Client:
    """One initialized driver, its functions as methods that return results and raise failures.

    A function of the table is called by its name and arguments, without the last ones, through
    which it stores results: `client.event_record(event, queue)` returns nothing,
    `client.device_count()` a number, `client.memory_info(device)` two, and
    `client.device_properties(device)` a struct. Addresses and handles are integers. Functions that
    need more translation have methods.

    Args:
        driver: a table that was not initialized before.

    Raises:
        DriverError: if it cannot be initialized, or from any later call that fails.
    """

    def __init__(self, driver: contract.Driver) -> None:
        self.driver = driver
        self._callbacks: list[Any] = []  # must outlive their execution on the driver's threads
        self.call("initialize")

    def status(self, name: str, *arguments: Any) -> Status:
        """Calls a function of the table and returns its status, without raising."""
        return Status(getattr(self.driver, name)(self.driver.context, *arguments))

    def last_error(self) -> str:
        """The message of this thread's last failed call."""
        message: bytes | None = self.driver.last_error(self.driver.context)
        return (message or b"no message").decode(errors="replace")

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the table, raises unless it returns OK, and returns its results."""
        types = contract.FUNCTIONS[name]._argtypes_[1 + len(arguments) :]
        results = [pointer._type_() for pointer in types]
        for result in results:
            if isinstance(result, ctypes.Structure):
                result.struct_size = ctypes.sizeof(result)
        status = self.status(name, *arguments, *map(ctypes.byref, results))
        if status != Status.OK:
            raise DriverError(name, status, self.last_error())
        values = tuple(_python_value(result) for result in results)
        return values if len(values) > 1 else values[0] if values else None

    def _created(self, name: str, *arguments: Any) -> int:
        result: int = self.call(name, *arguments)
        return result

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in contract.FUNCTIONS:
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)

    def has(self, name: str) -> bool:
        """Whether the driver implements a function."""
        return bool(getattr(self.driver, name))

    def allocate(self, device: int, size: int, shareable: bool = False) -> int:
        """Address of `size` new bytes on a device."""
        flags = AllocationFlag.SHAREABLE if shareable else AllocationFlag(0)
        wanted = contract.described(contract.Allocation, device=device, bytes=size, flags=flags)
        return self._created("allocate", wanted)

    def host_allocate(self, size: int) -> int:
        """Pointer to `size` new bytes of pinned host memory."""
        wanted = contract.described(contract.HostAllocation, bytes=size)
        return self._created("host_allocate", wanted)

    def queue_create(self, device: int, priority: int = 0) -> int:
        """A new queue."""
        wanted = contract.described(contract.QueueDescription, device=device, priority=priority)
        return self._created("queue_create", wanted)

    def queue_query(self, queue: int) -> bool:
        """Whether all work on the queue is done."""
        return self._ready("queue_query", queue)

    def event_create(self, device: int, timing: bool = False) -> int:
        """A new event."""
        flags = EventFlag.TIMING if timing else EventFlag(0)
        wanted = contract.described(contract.EventDescription, device=device, flags=flags)
        return self._created("event_create", wanted)

    def event_query(self, event: int) -> bool:
        """Whether the event has completed."""
        return self._ready("event_query", event)

    def communicator_create(
        self, id: contract.CommunicatorId, device: int, rank: int, ranks: int
    ) -> int:
        """One rank's end of a communicator."""
        wanted = contract.described(
            contract.CommunicatorDescription,
            id=ctypes.pointer(id),
            device=device,
            rank=rank,
            ranks=ranks,
        )
        return self._created("communicator_create", wanted)

    def communicate(
        self, queue: int, communicator: int, kind: contract.CommunicationKind, **fields: int
    ) -> None:
        """Enqueues a communication; `fields` are those of `contract.Communication`."""
        wanted = contract.described(contract.Communication, **fields)
        wanted.kind = kind
        self.call("communicate", queue, communicator, ctypes.byref(wanted))

    def program_build(self, device: int, source: str, options: str = "") -> int:
        """A program compiled from OpenCL C."""
        described = contract.described(
            contract.ProgramSource, device=device, source=source.encode(), options=options.encode()
        )
        return self._created("program_build", described)

    def program_binary(self, program: int) -> bytes:
        """The binary of a program, which `program_load` loads."""
        size = ctypes.c_uint64(self.call("program_binary", program, None))
        data = ctypes.create_string_buffer(size.value)
        self.call("program_binary", program, data, ctypes.byref(size))
        return data.raw

    def program_load(self, device: int, binary: bytes) -> int:
        """A program from its binary."""
        data = ctypes.create_string_buffer(binary, max(len(binary), 1))
        image = contract.described(
            contract.ProgramImage, device=device, data=ctypes.addressof(data), bytes=len(binary)
        )
        return self._created("program_load", image)

    def kernel_create(self, program: int, name: str) -> int:
        """A kernel of a program."""
        return self._created("kernel_create", program, name.encode())

    def launch(
        self,
        queue: int,
        kernel: int,
        global_size: Sequence[int],
        local_size: Sequence[int],
        *arguments: int | Local | ctypes._CData,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Enqueues a kernel.

        Args:
            queue: the queue to enqueue to.
            kernel: the kernel to run.
            global_size: work-items in each of 1 to 3 dimensions.
            local_size: work-items of a work-group; divides `global_size`.
            arguments: integers are addresses; values are given with their `ctypes` type, structs
                and arrays among them.
            start: an event for the start time of the kernel.
            end: an event for its end time.
        """
        array = (contract.Argument * len(arguments))()
        for entry, argument in zip(array, arguments, strict=True):
            if isinstance(argument, int):
                entry.kind, entry.address = ArgumentKind.ADDRESS, argument
            elif isinstance(argument, Local):
                entry.kind, entry.size = ArgumentKind.LOCAL, argument.size
            else:
                entry.kind, entry.size = ArgumentKind.VALUE, ctypes.sizeof(argument)
                entry.value = ctypes.addressof(argument)
        launch = contract.Launch(
            struct_size=ctypes.sizeof(contract.Launch),
            kernel=kernel,
            dimensions=len(global_size),
            arguments=array,
            argument_count=len(arguments),
            argument_bytes=ctypes.sizeof(contract.Argument),
            start=start,
            end=end,
        )
        launch.global_size[: len(global_size)] = global_size
        launch.local_size[: len(local_size)] = local_size
        self.call("launch", queue, ctypes.byref(launch))

    def _ready(self, name: str, handle: int) -> bool:
        status = self.status(name, handle)
        if status not in (Status.OK, Status.NOT_READY):
            raise DriverError(name, status, self.last_error())
        return bool(status == Status.OK)

    def write(self, queue: int, address: int, data: bytes) -> None:
        """Copies bytes to a device and waits."""
        self.call("copy_host_to_device", queue, address, data, len(data))
        self.call("queue_synchronize", queue)

    def read(self, queue: int, address: int, size: int) -> bytes:
        """Copies bytes from a device and waits."""
        data = ctypes.create_string_buffer(size)
        self.call("copy_device_to_host", queue, data, address, size)
        self.call("queue_synchronize", queue)
        return data.raw

    def fill(self, queue: int, address: int, pattern: bytes, size: int) -> None:
        """Enqueues a fill of `size` bytes with a repeated pattern."""
        self.call("fill", queue, address, pattern, len(pattern), size)

    def host_callback(self, queue: int, function: Callable[[], object]) -> None:
        """Enqueues a call of a Python function."""
        callback = contract.HostFunction(lambda _: function())
        self._callbacks.append(callback)
        self.call("host_callback", queue, callback, None)
