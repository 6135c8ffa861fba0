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


def using(
    change: Callable[[Driver, Driver], None], use: Callable[[], object] = use_copy
) -> Callable[[], object]:
    """Uses such a table."""

    def run() -> object:
        use_table(change)
        return use()

    return run


# ---- The table ----


def field(name: str, value: Any) -> Callable[[], object]:
    return using(lambda table, original: setattr(table, name, value))


def without(name: str) -> Callable[[], object]:
    return field(name, FUNCTIONS[name]())


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

    return using(change)


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

    def count() -> object:
        torch.get_device_module("host").init()
        return torch.get_device_module("host").device_count()

    return using(change, count)


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

    return using(change, use)


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

    return using(change)


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


# ---- All of them ----

TABLE = "RuntimeError: device 'host' is not available: the driver's table "
DEVICE = "RuntimeError: driver 'host' cannot be used: it says that device 0 "
COPIES = (
    "AcceleratorError: driver 'host' answered error to `allocate`: it answered OK to copies to the "
    "device, on it and back to the host, and other bytes came back than were sent"
)
NOTHING = "answered OK and gave nothing"
UNTOUCHABLE = "mapped memory that the host cannot touch"


def answer(function: str, words: str) -> str:
    return f"AcceleratorError: driver 'host' answered error to `{function}`: it {words}"


def lost(words: str) -> str:
    return f"AcceleratorError: driver 'host' answered device lost to `queue_create`: {words}"


# Each lie, and how the answer to it begins.
LIES: list[tuple[Callable[[], object], str]] = [
    (use_copy, "returned [2.0, 2.0, 2.0]"),
    # the table
    (field("name", None), TABLE + "lacks `name`"),
    (field("name", b""), TABLE + "lacks `name`"),
    (field("name", b"ger\xe4t"), TABLE + "has a `name` that is not UTF-8"),
    (field("struct_size", Driver.fill.offset + 4),
     TABLE + "says it has 292 bytes, which ends within a field"),
    (unreadable_table, TABLE + "does not lie in memory that can be read"),
    (without("host_deallocate"), TABLE + "has `host_allocate` and lacks `host_deallocate`"),
    (without("graph_launch"), TABLE + "has `graph_begin` and lacks `graph_launch`"),
    (without("host_unregister"), TABLE + "has `host_register` and lacks `host_unregister`"),
    (without("memory_close"), TABLE + "has `memory_export` and lacks `memory_close`"),
    (without("communicator_abort"), TABLE + "has `communicator_id` and lacks `communicator_abort`"),
    (maps(only=("address_reserve", "memory_map")),
     TABLE + "has `address_reserve` and lacks `address_release`"),
    # properties
    (properties(addressing=7),
     DEVICE + "has addressing 7, and there are 0 (pointers) and 1 (handles)"),
    (properties(host_access=-3),
     DEVICE + "has host access -3, and there are 0 (none) and 1 (coherent)"),
    (properties(total_memory=0), DEVICE + "has 0 bytes of memory"),
    (properties(total_memory=2**64 - 1),
     DEVICE + "has 18446744073709551615 bytes of memory, more than any device"),
    (properties(total_memory=1 << 30, max_allocation=1 << 31),
     DEVICE + "gives up to 2147483648 bytes in one allocation"),
    (properties(alignment=48), DEVICE + "aligns memory to 48 bytes, which is no power of two"),
    (properties(compute_units=2**32 - 1),
     DEVICE + "has 4294967295 compute units, more than any device"),
    (properties(preferred_vector_width=2**31),
     DEVICE + "prefers vectors of 2147483648 numbers, more than any device"),
    (properties(max_work_group_size=8, subgroup_size=16),
     DEVICE + "has sub-groups of 16 work items in work groups of up to 8"),
    (maps(granularity=3 << 20),
     DEVICE + "maps memory in multiples of 3145728 bytes, and has `memory_map`"),
    (maps(granularity=0), DEVICE + "maps memory in multiples of 0 bytes, and has `memory_map`"),
    (properties(least_priority=-1, greatest_priority=3),
     DEVICE + "has queues of priorities from 3 (most urgent) to -1 (least urgent)"),
    (properties(least_priority=2**31 - 1),
     DEVICE + "has queues of priorities from -1 to 2147483647"),
    (properties(size=8),
     "RuntimeError: driver 'host' wrote past the properties of device 0: it was"),
    (names_that_are_not_utf8, "returned ['chip ?\u00e9 ', 126, '??', '1???']"),
    (devices(1000), "returned 64"),
    (devices(-3), "RuntimeError: driver 'host' reports -3 devices"),
    # the wrapper
    (wrapper(os.mkfifo), "RuntimeError: device 'host' is not available: the library /"),
    (wrapper(lambda path: path.write_bytes(Path(torture.library_path()).read_bytes()[:20000])),
     "RuntimeError: device 'host' is not available: the library /"),
    # answers
    (lies("queue_create"), answer("queue_create", NOTHING)),
    (lies("event_create", use=recorded), answer("event_create", NOTHING)),
    (lies("allocate"), answer("allocate", "answered OK to `allocate` and gave no address")),
    (lies("host_allocate", use=pinned), answer("host_allocate", NOTHING)),
    (lies("copy_host_to_device"), COPIES),
    (lies("copy_device_to_host"), COPIES),
    (lies("copy_device_to_device"), COPIES),
    (answers("allocate", same_memory, two_segments),
     answer("allocate", "gave memory that is in use already, at 0x")),
    (answers("allocate", crooked), answer("allocate", "gave memory that is not aligned as")),
    (answers("allocate", past_the_end),
     answer("allocate", "gave memory that reaches past the last address")),
    (answers("memory_info", memory_figures, memory_info),
     answer("memory_info", "says that 5 of 3 bytes are free")),
    (answers("event_elapsed", not_a_time, timed_events),
     answer("event_elapsed", "answered OK and a time of nan ms")),
    (answers("event_time", device_clock, event_time),
     answer("event_time", "answered OK and a time of 12345 ns, and it is ")),
    (maps(address_reserve=lambda *_: Status.OK), answer("address_reserve", NOTHING)),
    (maps(address_reserve=same_addresses, memory_map=nothing_mapped),
     answer("memory_map", UNTOUCHABLE)),
    (maps(memory_map=nothing_mapped), answer("memory_map", UNTOUCHABLE)),
    (separate(lies("memory_export", use=sent)),
     answer("memory_export", "answered OK and gave no open descriptor")),
    (separate(answers("memory_export", no_descriptor, sent)),
     answer("memory_export", "answered OK and gave no open descriptor")),
    (separate(lies("memory_import", use=received)), answer("memory_import", NOTHING)),
    (separate(imports_what_is_there),
     answer("memory_import", "gave memory that is in use already")),
    (lies("communicator_create", use=communicated),
     "returned ([1.0, 1.0, 1.0], 'it answered OK and gave nothing; "),
    (lies("device_reset", use=reset), "returned [2.0, 2.0, 2.0]"),
    (message(b"kein Ger\xe4t"), lost("kein Ger?t")),
    (message(None), lost("it gave no reason")),
    # memory
    (host_access_claimed(),
     answer("allocate", "says that the host can touch the memory of the device")),
    (incoherent, answer("allocate", "says that host and device see each other's writes")),
    (features_claimed,
     answer("allocate", "says that any memory of the host is memory of the device")),
]  # fmt: skip


def run_all() -> list[str]:
    """What came of those that were answered otherwise."""
    outcomes = [(expected, in_child(lie)) for lie, expected in LIES]
    return [f"{each!r} for {wanted!r}" for wanted, each in outcomes if not each.startswith(wanted)]
