"""Drivers that lie: the driver `host` with something wrong in table, properties or answers.

`run_all` tries each in a forked child, since a process has one driver and the first use settles
which. It is called in a process that has not used the device.
"""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import torch

import torch_outboard
from tests.forking import in_child
from tests.runtime.mapped_memory import MIB, PIECE, MappedMemory
from torch_outboard import _C
from torch_outboard.drivers import contract, host, torture
from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

_kept: list[Any] = []  # alive as long as the driver may use them


def use_table(change: Callable[[Driver, Driver], None]) -> None:
    """Makes a changed table of `host` the driver of this process."""
    original = contract.load(host.library_path())
    table = Driver.from_buffer_copy(original)
    change(table, original)
    _kept.extend((table, original))
    torch_outboard.use_driver(table)


def use_copy() -> object:
    """The first thing that everybody does."""
    return torch.ones(3, device="host").add(1).tolist()


# ---- The table ----


def field(name: str, value: Any) -> Callable[[], object]:
    def change(table: Driver, original: Driver) -> None:
        setattr(table, name, value)

    return lambda: (use_table(change), use_copy())[1]


def without(name: str) -> Callable[[], object]:
    def change(table: Driver, original: Driver) -> None:
        setattr(table, name, FUNCTIONS[name]())

    return lambda: (use_table(change), use_copy())[1]


def unreadable_table() -> object:
    torch_outboard.use_driver(4096)
    return use_copy()


def maps(
    only: tuple[str, ...] = (), granularity: int = PIECE, **changes: Any
) -> Callable[[], object]:
    """A driver that maps memory, by these functions if there are any, and with other answers."""

    def change(table: Driver, original: Driver) -> None:
        memory = MappedMemory(64 * MIB)
        memory.granularity = granularity
        memory.add_to(table, original)
        for name in ("address_reserve", "address_release", "memory_map", "memory_unmap"):
            if only and name not in only:
                setattr(table, name, FUNCTIONS[name]())
        for name, function in changes.items():
            setattr(table, name, FUNCTIONS[name](function))
        _kept.append(memory)

    def run() -> object:
        # Read at the import of PyTorch, and set again here.
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        use_table(change)
        return use_copy()

    return run


def same_addresses(context: int, device: int, size: int, address: Any) -> int:
    address[0] = 1 << 40
    return Status.OK


def nothing_mapped(context: int, device: int, address: int, size: int) -> int:
    return Status.OK


# ---- Properties ----


def properties(size: int | None = None, **fields: Any) -> Callable[[], object]:
    """A driver that reports these properties; `size`: and writes that many bytes of its own."""

    def change(table: Driver, original: Driver) -> None:
        def device_properties(context: int, device: int, result: Any) -> int:
            status: int = original.device_properties(context, device, result)
            for name, value in fields.items():
                if isinstance(value, bytes):
                    address = ctypes.addressof(result.contents)
                    offset = getattr(contract.DeviceProperties, name).offset
                    ctypes.memmove(address + offset, value, len(value))
                else:
                    setattr(result.contents, name, value)
            if size is not None:
                end = ctypes.addressof(result.contents) + result.contents.struct_size
                ctypes.memset(end, 7, size)
            return status

        table.device_properties = FUNCTIONS["device_properties"](device_properties)

    return lambda: (use_table(change), use_copy())[1]


def names_that_are_not_utf8() -> object:
    name = b"chip \xff\xc3\xa9 " + b"x" * 120  # without an end
    use = properties(name=name[:128], vendor=b"\xe2\x82\0", driver_version=b"1\xed\xa0\x80\0")
    use()
    found = torch.get_device_module("host").get_device_properties(0)
    return [found.name.rstrip("x"), len(found.name), found.vendor, found.driver_version]


def devices(reported: int) -> Callable[[], object]:
    def change(table: Driver, original: Driver) -> None:
        def device_count(context: int, count: Any) -> int:
            count[0] = reported
            return Status.OK

        def device_properties(context: int, device: int, result: Any) -> int:
            return original.device_properties(context, 0, result)

        table.device_count = FUNCTIONS["device_count"](device_count)
        table.device_properties = FUNCTIONS["device_properties"](device_properties)

    def run() -> object:
        use_table(change)
        torch.get_device_module("host").init()
        return torch.get_device_module("host").device_count()

    return run


def wrapper(make: Callable[[Path], object]) -> Callable[[], object]:
    """The library of torture is something else."""

    def run() -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "libob_torture.so")
            make(path)
            _C.use_wrapper_library(str(path))
            return use_copy()

    return run


# ---- Answers ----


def lies(*functions: str, use: Callable[[], object] = use_copy) -> Callable[[], object]:
    """A driver of which these functions answer OK and do nothing."""

    def run() -> object:
        os.environ["OUTBOARD_TORTURE"] = ",".join(f"lie={name}:1:on" for name in functions)
        _C.use_wrapper_library(torture.library_path())
        return use()

    return run


def answers(name: str, replace: Callable[..., Any], use: Callable[[], object] = use_copy) -> Any:
    """A driver with a function of ours: `replace(original, *arguments)`."""

    def change(table: Driver, original: Driver) -> None:
        def call(context: int, *arguments: Any) -> int:
            return int(replace(original, *arguments))

        setattr(table, name, FUNCTIONS[name](call))

    return lambda: (use_table(change), use())[1]


# More than the kit takes to try a device.
LARGE = 1 << 20
_large: list[int] = []


def same_memory(original: Driver, wanted: Any, address: Any) -> int:
    """The second large allocation is the first."""
    status: int = original.allocate(None, wanted, address)
    if wanted.contents.bytes > LARGE:
        _large.append(address[0])
        address[0] = _large[0]
    return status


def two_segments() -> object:
    return [torch.ones(1 << 23, device="host") for _ in range(2)]


def crooked(original: Driver, wanted: Any, address: Any) -> int:
    large = wanted.contents.bytes > LARGE
    wanted.contents.bytes += 64
    status: int = original.allocate(None, wanted, address)
    if large:
        address[0] += 4
    return status


def past_the_end(original: Driver, wanted: Any, address: Any) -> int:
    status: int = original.allocate(None, wanted, address)
    if wanted.contents.bytes > LARGE:
        address[0] = 2**64 - 4096
    return status


def memory_figures(original: Driver, device: int, free: Any, total: Any) -> int:
    free[0], total[0] = 5, 3
    return Status.OK


def not_a_time(original: Driver, start: int, end: int, milliseconds: Any) -> int:
    milliseconds[0] = float("nan")
    return Status.OK


def timed_events() -> object:
    start, end = (torch.Event("host", enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def device_clock(original: Driver, event: int, nanoseconds: Any) -> int:
    nanoseconds[0] = 12345
    return Status.OK


def event_time() -> object:
    """Kernels of `ocl` are what is timed; here the events alone."""
    use_copy()
    return _C._event_time()


def no_descriptor(original: Driver, device: int, address: int, handle: Any) -> int:
    handle.contents.descriptor = 9999
    return Status.OK


def separate(lie: Callable[[], object]) -> Callable[[], object]:
    """Where tensors are sent by memory of the device."""

    def run() -> object:
        os.environ["OUTBOARD_HOST_ACCESS"] = "separate"
        return lie()

    return run


def sent() -> object:
    use_copy()
    ForkingPickler.dumps(torch.ones(3, device="host"))
    return "sent"


def received() -> object:
    use_copy()
    x = torch.ones(3, device="host")
    descriptor, data = _C.export_storage(x.untyped_storage())
    _C.import_storage(0, descriptor, 12, data)
    return "received"


def same_import(original: Driver, device: int, handle: Any, address: Any) -> int:
    address[0] = _large[-1]
    return Status.OK


def remember(original: Driver, wanted: Any, address: Any) -> int:
    status: int = original.allocate(None, wanted, address)
    _large.append(address[0])
    return status


def imports_what_is_there() -> object:
    def change(table: Driver, original: Driver) -> None:
        for name, replace in (("allocate", remember), ("memory_import", same_import)):
            call = functools.partial(replace, original)
            setattr(table, name, FUNCTIONS[name](lambda _, *args, call=call: int(call(*args))))

    use_table(change)
    return received()


def host_access_claimed(**fields: Any) -> Callable[[], object]:
    """Separate memory, of which the driver says that the host can touch it."""

    def run() -> object:
        os.environ["OUTBOARD_HOST_ACCESS"] = "separate"
        return properties(host_access=contract.HostAccess.COHERENT, **fields)()

    return run


def features_claimed() -> object:
    """Memory of the host is no memory of the device."""

    def change(table: Driver, original: Driver) -> None:
        known: set[int] = set()

        def allocate(context: int, wanted: Any, address: Any) -> int:
            status: int = original.allocate(context, wanted, address)
            known.add(address[0])
            return status

        def copy(context: int, queue: int, destination: int, source: int, size: int) -> int:
            if source not in known:
                return Status.INVALID_ARGUMENT
            return int(original.copy_device_to_device(context, queue, destination, source, size))

        table.allocate = FUNCTIONS["allocate"](allocate)
        table.copy_device_to_device = FUNCTIONS["copy_device_to_device"](copy)

    use_table(change)
    return use_copy()


def incoherent() -> object:
    """The device works on a copy of the memory: it never sees what the host writes there."""

    def change(table: Driver, original: Driver) -> None:
        behind: dict[int, Any] = {}

        def allocate(context: int, wanted: Any, address: Any) -> int:
            status: int = original.allocate(context, wanted, address)
            behind[address[0]] = ctypes.create_string_buffer(wanted.contents.bytes)
            return status

        def to_device(context: int, queue: int, destination: int, source: int, size: int) -> int:
            ctypes.memmove(behind[destination], source, size)
            return Status.OK

        def on_device(context: int, queue: int, destination: int, source: int, size: int) -> int:
            ctypes.memmove(behind[destination], behind[source], size)
            return Status.OK

        def to_host(context: int, queue: int, destination: int, source: int, size: int) -> int:
            ctypes.memmove(destination, behind[source], size)
            return Status.OK

        for name, function in (
            ("allocate", allocate), ("copy_host_to_device", to_device),
            ("copy_device_to_device", on_device), ("copy_device_to_host", to_host),
        ):  # fmt: skip
            setattr(table, name, FUNCTIONS[name](function))

    use_table(change)
    return use_copy()


def message(text: bytes | None) -> Callable[[], object]:
    """A driver that fails with this message."""
    kind = dict(Driver._fields_)["last_error"]

    def change(table: Driver, original: Driver) -> None:
        table.last_error = kind(lambda _: text)
        table.queue_create = FUNCTIONS["queue_create"](lambda *_: Status.DEVICE_LOST)

    return lambda: (use_table(change), use_copy())[1]


def pinned() -> object:
    use_copy()
    return torch.ones(3).pin_memory().tolist()


def recorded() -> object:
    use_copy()
    torch.Event("host").record()
    return "recorded"


def memory_info() -> object:
    use_copy()
    return torch.accelerator.get_memory_info()


def reset() -> object:
    use_copy()
    torch.get_device_module("host").reset_device()
    return use_copy()


def communicated() -> object:
    """A group of one rank; the answer says why the driver does not communicate."""
    use_copy()
    from torch_outboard.distributed import why_not_by_driver

    torch.distributed.init_process_group(store=torch.distributed.HashStore(), rank=0, world_size=1)
    x = torch.ones(3, device="host")
    torch.distributed.all_reduce(x)
    reason = why_not_by_driver()
    torch.distributed.destroy_process_group()
    return x.tolist(), reason


LIES: dict[str, Callable[[], object]] = {
    "nothing": use_copy,
    # the table
    "no name": field("name", None),
    "empty name": field("name", b""),
    "name in Latin-1": field("name", b"ger\xe4t"),
    "half a field": field("struct_size", Driver.fill.offset + 4),
    "no address of a table": unreadable_table,
    "pinned memory that stays": without("host_deallocate"),
    "half of the graphs": without("graph_launch"),
    "half of the registration": without("host_unregister"),
    "half of the sharing": without("memory_close"),
    "half of the communication": without("communicator_abort"),
    "half of the mapping": maps(only=("address_reserve", "memory_map")),
    # properties
    "addressing": properties(addressing=7),
    "host access": properties(host_access=-3),
    "no memory": properties(total_memory=0),
    "negative memory": properties(total_memory=2**64 - 1),
    "allocations beyond the memory": properties(total_memory=1 << 30, max_allocation=1 << 31),
    "alignment": properties(alignment=48),
    "compute units": properties(compute_units=2**32 - 1),
    "vectors": properties(preferred_vector_width=2**31),
    "sub-groups": properties(max_work_group_size=8, subgroup_size=16),
    "granularity": maps(granularity=3 << 20),
    "no granularity": maps(granularity=0),
    "priorities": properties(least_priority=-1, greatest_priority=3),
    "many priorities": properties(least_priority=2**31 - 1),
    "past the struct": properties(size=8),
    "names in Latin-1": names_that_are_not_utf8,
    "a thousand devices": devices(1000),
    "negative devices": devices(-3),
    # the wrapper
    "wrapper is a FIFO": wrapper(os.mkfifo),
    "wrapper is cut off": wrapper(
        lambda path: path.write_bytes(Path(torture.library_path()).read_bytes()[:20000])
    ),
    # answers
    "null queue": lies("queue_create"),
    "null event": lies("event_create", use=recorded),
    "null memory": lies("allocate"),
    "null pinned memory": lies("host_allocate", use=pinned),
    "copies to the device": lies("copy_host_to_device"),
    "copies from the device": lies("copy_device_to_host"),
    "copies on the device": lies("copy_device_to_device"),
    "same memory twice": answers("allocate", same_memory, two_segments),
    "crooked memory": answers("allocate", crooked),
    "memory past the end": answers("allocate", past_the_end),
    "more free than there is": answers("memory_info", memory_figures, memory_info),
    "no time": answers("event_elapsed", not_a_time, timed_events),
    "time of another clock": answers("event_time", device_clock, event_time),
    "null addresses": maps(address_reserve=lambda *_: Status.OK),
    "same addresses twice": maps(address_reserve=same_addresses, memory_map=nothing_mapped),
    "memory that is not mapped": maps(memory_map=nothing_mapped),
    "null descriptor": separate(lies("memory_export", use=sent)),
    "closed descriptor": separate(answers("memory_export", no_descriptor, sent)),
    "null import": separate(lies("memory_import", use=received)),
    "import of what is there": separate(imports_what_is_there),
    "null communicator": lies("communicator_create", use=communicated),
    "reset that does nothing": lies("device_reset", use=reset),
    "message in Latin-1": message(b"kein Ger\xe4t"),
    "no message": message(None),
    # memory
    "host access that faults": host_access_claimed(),
    "host sees old values": incoherent,
    "host memory is not device memory": features_claimed,
}


def run_all() -> dict[str, str]:
    """What came of each."""
    return {name: in_child(lie) for name, lie in LIES.items()}
