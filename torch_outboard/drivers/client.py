"""A client that calls a driver from Python without PyTorch, for tests and experiments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import (
    AllocationFlag,
    ArgumentKind,
    DeviceProperties,
    EventFlag,
    Status,
)

T = TypeVar("T")


class DriverError(RuntimeError):
    """A call of a driver failed.

    Attributes:
        status: the status that the call returned.
    """

    def __init__(self, call: str, status: Status, message: str) -> None:
        super().__init__(f"{call}: {status.name}: {message}")
        self.status = status


@dataclass(frozen=True)
class Local:
    """A kernel's argument: `size` bytes of local memory."""

    size: int


class Client:
    """One initialized driver, its functions as methods that return results and raise failures.

    A function of the table that needs no translation is called by its name and arguments:
    `client.event_record(event, queue)`. Addresses and handles are integers.

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

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the table and raises unless it returns OK."""
        status = self.status(name, *arguments)
        if status != Status.OK:
            raise DriverError(name, status, self.last_error())

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in contract.FUNCTIONS:
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)

    def has(self, name: str) -> bool:
        """Whether the driver implements a function."""
        return bool(getattr(self.driver, name))

    def _result(self, kind: type[ctypes._SimpleCData[T]], name: str, *arguments: Any) -> T:
        result = kind()
        self.call(name, *arguments, ctypes.byref(result))
        return result.value

    def _handle(self, kind: type[ctypes.c_void_p], name: str, *arguments: Any) -> int:
        return self._result(kind, name, *arguments) or 0

    def device_count(self) -> int:
        """Number of devices."""
        return self._result(ctypes.c_int32, "device_count")

    def device_properties(self, device: int) -> DeviceProperties:
        """Properties of a device."""
        properties = DeviceProperties(struct_size=ctypes.sizeof(DeviceProperties))
        self.call("device_properties", device, ctypes.byref(properties))
        return properties

    def device_state(self, device: int) -> contract.DeviceState:
        """The state of a device, such as its temperature."""
        state = contract.described(contract.DeviceState)
        self.call("device_state", device, ctypes.byref(state))
        return state

    def peer_access(self, device: int, peer: int) -> bool:
        """Whether copies between two devices bypass host memory."""
        return bool(self._result(ctypes.c_int32, "peer_access", device, peer))

    def kernel_attributes(self, kernel: int) -> contract.KernelAttributes:
        """Limits of a kernel."""
        attributes = contract.described(contract.KernelAttributes)
        self.call("kernel_attributes", kernel, ctypes.byref(attributes))
        return attributes

    def allocate(self, device: int, size: int, shareable: bool = False) -> int:
        """Address of `size` new bytes on a device."""
        flags = AllocationFlag.SHAREABLE if shareable else AllocationFlag(0)
        wanted = contract.described(contract.Allocation, device=device, bytes=size, flags=flags)
        return self._result(contract.Address, "allocate", wanted)

    def memory_export(self, device: int, address: int) -> contract.MemoryHandle:
        """A handle by which another process imports this memory; close its descriptor."""
        handle = contract.described(contract.MemoryHandle, descriptor=-1)
        self.call("memory_export", device, address, ctypes.byref(handle))
        return handle

    def memory_import(self, device: int, handle: contract.MemoryHandle) -> int:
        """Address of imported memory, valid until `memory_close`."""
        return self._result(contract.Address, "memory_import", device, ctypes.byref(handle))

    def memory_info(self, device: int) -> tuple[int, int]:
        """Free and total bytes of a device."""
        free, total = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("memory_info", device, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def host_allocate(self, size: int) -> int:
        """Pointer to `size` new bytes of pinned host memory."""
        wanted = contract.described(contract.HostAllocation, bytes=size)
        return self._handle(ctypes.c_void_p, "host_allocate", wanted)

    def queue_create(self, device: int, priority: int = 0) -> int:
        """A new queue."""
        wanted = contract.described(contract.QueueDescription, device=device, priority=priority)
        return self._handle(contract.Queue, "queue_create", wanted)

    def queue_query(self, queue: int) -> bool:
        """Whether all work on the queue is done."""
        return self._ready("queue_query", queue)

    def event_create(self, device: int, timing: bool = False) -> int:
        """A new event."""
        flags = EventFlag.TIMING if timing else EventFlag(0)
        wanted = contract.described(contract.EventDescription, device=device, flags=flags)
        return self._handle(contract.Event, "event_create", wanted)

    def event_query(self, event: int) -> bool:
        """Whether the event has completed."""
        return self._ready("event_query", event)

    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two events."""
        return self._result(ctypes.c_double, "event_elapsed", start, end)

    def event_time(self, event: int) -> int:
        """Time of an event, in nanoseconds of `time.monotonic_ns`."""
        return self._result(ctypes.c_uint64, "event_time", event)

    def graph_end(self, queue: int) -> int:
        """The graph captured since `graph_begin`."""
        return self._handle(contract.Graph, "graph_end", queue)

    def communicator_id(self) -> contract.CommunicatorId:
        """The id of a new communicator."""
        made = contract.described(contract.CommunicatorId)
        self.call("communicator_id", ctypes.byref(made))
        return made

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
        return self._handle(contract.Communicator, "communicator_create", wanted)

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
        return self._handle(contract.Program, "program_build", described)

    def program_binary(self, program: int) -> bytes:
        """The binary of a program, which `program_load` loads."""
        size = ctypes.c_uint64()
        self.call("program_binary", program, None, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        self.call("program_binary", program, data, ctypes.byref(size))
        return data.raw

    def program_load(self, device: int, binary: bytes) -> int:
        """A program from its binary."""
        data = ctypes.create_string_buffer(binary, max(len(binary), 1))
        image = contract.described(
            contract.ProgramImage, device=device, data=ctypes.addressof(data), bytes=len(binary)
        )
        return self._handle(contract.Program, "program_load", image)

    def kernel_create(self, program: int, name: str) -> int:
        """A kernel of a program."""
        return self._handle(contract.Kernel, "kernel_create", program, name.encode())

    def launch(
        self,
        queue: int,
        kernel: int,
        global_size: Sequence[int],
        local_size: Sequence[int],
        *arguments: int | Local | ctypes._SimpleCData[Any],
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Enqueues a kernel.

        Args:
            queue: the queue to enqueue to.
            kernel: the kernel to run.
            global_size: work-items in each of 1 to 3 dimensions.
            local_size: work-items of a work-group; divides `global_size`.
            arguments: integers are addresses; values are given with their `ctypes` type.
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
        return status == Status.OK

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
