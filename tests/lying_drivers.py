"""Drivers that lie: the driver `host` with something wrong in table, properties or answers.

The runtime refuses `WRONG_TABLES`, which include properties, validation `WRONG_ANSWERS`.
`run_all` tries each in a forked child, since a process has one driver and the first use settles
which. It is called in a process that has not used the device.
"""

import ctypes
import functools
import os
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

import torch_outboard
from tests.forking import in_child
from tests.runtime.mapped_memory import MIB, PIECE, MappedMemory
from torch_outboard import _C
from torch_outboard.drivers import contract, faults, host, validation
from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

Use = Callable[[], object]
Change = Callable[[Driver, Driver], None]
LastError = dict(Driver._fields_)["last_error"]
_kept: list[Any] = []  # alive as long as the driver may use them


def use_table(change: Change) -> None:
    """Makes a changed table of `host` the driver of this process."""
    original = contract.load(host.library_path())
    table = Driver.from_buffer_copy(original)
    change(table, original)
    _kept.extend((table, original))
    torch_outboard.use_driver(table)


def use_copy() -> object:
    """The first thing that everybody does."""
    return torch.ones(3, device="host").add(1).tolist()


def using(change: Change, use: Use = use_copy) -> Use:
    """Uses such a table."""

    def run() -> object:
        use_table(change)
        return use()

    return run


def replaced(use: Use = use_copy, **functions: Callable[..., Any]) -> Use:
    """A driver with functions of ours, called as `function(original, *arguments)`."""

    def change(table: Driver, original: Driver) -> None:
        for name, function in functions.items():
            call = functools.partial(function, original)
            setattr(table, name, FUNCTIONS[name](lambda _, *args, call=call: int(call(*args))))

    return using(change, use)


def then(use: Use) -> Use:
    """Functions used after the first copy."""

    def run() -> object:
        use_copy()
        return use()

    return run


def answering(*values: Any) -> Callable[..., Any]:
    """A function that answers OK and gives these values by its last arguments."""

    def function(original: Driver, *arguments: Any) -> int:
        for result, value in zip(arguments[-len(values) :], values, strict=True):
            result[0] = value
        return Status.OK

    return function


def does_nothing(*_: Any) -> int:
    return Status.OK


# ---- The table ----


def field(name: str, value: Any) -> Use:
    return using(lambda table, original: setattr(table, name, value))


def without(name: str) -> Use:
    return field(name, FUNCTIONS[name]())


def given(driver: Any) -> Use:
    """Gives this in place of a driver."""

    def run() -> object:
        torch_outboard.use_driver(driver)
        return use_copy()

    return run


def counts_its_context(table: Driver, original: Driver) -> None:
    """One device, if every function gets the context of the table."""

    def device_count(context: int, count: Any) -> int:
        count[0] = context
        return Status.OK

    table.context, table.device_count = 1, FUNCTIONS["device_count"](device_count)


def maps(granularity: int = PIECE, **changes: Any) -> Use:
    """A driver that maps memory, with other answers."""

    def change(table: Driver, original: Driver) -> None:
        memory = MappedMemory(64 * MIB)
        memory.granularity = granularity
        memory.add_to(table, original)
        for name, function in changes.items():
            setattr(table, name, FUNCTIONS[name](function))
        _kept.append(memory)

    def run() -> object:
        # Read at the import of PyTorch, and set again here.
        torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        use_table(change)
        return use_copy()

    return run


# ---- Properties ----


def properties(size: int | None = None, **fields: Any) -> Use:
    """A driver that reports these properties; `size`: and writes that many bytes of its own."""

    def device_properties(original: Driver, device: int, result: Any) -> Any:
        status = original.device_properties(None, device, result)
        address = ctypes.addressof(result.contents)
        for name, value in fields.items():
            if isinstance(value, bytes):
                offset = getattr(contract.DeviceProperties, name).offset
                ctypes.memmove(address + offset, value, len(value))
            else:
                setattr(result.contents, name, value)
        if size is not None:
            ctypes.memset(address + result.contents.struct_size, 7, size)
        return status

    return replaced(device_properties=device_properties)


def names_that_are_not_utf8() -> object:
    name = b"chip \xff\xc3\xa9 " + b"x" * 120  # without an end
    use = properties(name=name[:128], vendor=b"\xe2\x82\0", driver_version=b"1\xed\xa0\x80\0")
    use()
    found = torch.get_device_module("host").get_device_properties(0)
    return [found.name.rstrip("x"), len(found.name), found.vendor, found.driver_version]


def count() -> object:
    torch.get_device_module("host").init()
    return torch.get_device_module("host").device_count()


def devices(reported: int) -> Use:
    def device_properties(original: Driver, device: int, result: Any) -> Any:
        return original.device_properties(None, 0, result)

    device_count = answering(reported)
    return replaced(count, device_count=device_count, device_properties=device_properties)


# ---- Answers ----


def faulty(settings: str, use: Use = use_copy) -> Use:
    """A driver behind faults with these settings."""

    def run() -> object:
        os.environ["OUTBOARD_FAULTS"] = settings
        _C.add_driver_layer(faults.library_path())
        if os.environ.get("OUTBOARD_VALIDATE") == "1":
            _C.add_driver_layer(validation.library_path())  # outside of faults
        return use()

    return run


def lies(function: str, use: Use = use_copy) -> Use:
    """A driver whose function returns OK and does nothing."""
    return faulty(f"lie={function}:1:on", use)


def twice() -> object:
    """Whether the next use has the same outcome as the first, and that."""
    outcomes: list[object] = []
    for _ in range(2):
        try:
            outcomes.append(use_copy())
        except RuntimeError as error:
            outcomes.append(str(error).splitlines()[0])
    return outcomes[0] == outcomes[1], outcomes[1]


# More than the kit takes to try a device.
LARGE = 1 << 20
_large: list[int] = []


def moved(change: Callable[[int], int], more: int = 0) -> Callable[..., Any]:
    """Allocates with so many bytes more, and says that large memory is where `change` says."""

    def allocate(original: Driver, wanted: Any, address: Any) -> int:
        large = wanted.contents.bytes > LARGE
        wanted.contents.bytes += more
        status: int = original.allocate(None, wanted, address)
        if large:
            address[0] = change(address[0])
        return status

    return allocate


def the_first(address: int) -> int:
    """The second large allocation is the first."""
    _large.append(address)
    return _large[0]


def two_segments() -> object:
    return [torch.ones(1 << 23, device="host") for _ in range(2)]


def timed_events() -> object:
    start, end = (torch.Event("host", enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def no_descriptor(original: Driver, device: int, address: int, handle: Any) -> int:
    handle.contents.descriptor = 9999
    return Status.OK


def separate(lie: Use) -> Use:
    """Where tensors are sent by memory of the device."""

    def run() -> object:
        os.environ["OUTBOARD_HOST_ACCESS"] = "separate"
        return lie()

    return run


def sent() -> object:
    ForkingPickler.dumps(torch.ones(3, device="host"))
    return "sent"


def received() -> object:
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


def features_claimed() -> object:
    """Memory of the host is no memory of the device."""
    known: set[int] = set()

    def allocate(original: Driver, wanted: Any, address: Any) -> Any:
        status = original.allocate(None, wanted, address)
        known.add(address[0])
        return status

    def copy(original: Driver, queue: int, destination: int, source: int, size: int) -> Any:
        if source not in known:
            return Status.INVALID_ARGUMENT
        return original.copy_device_to_device(None, queue, destination, source, size)

    return replaced(allocate=allocate, copy_device_to_device=copy)()


def incoherent() -> object:
    """The device works on a copy of the memory: it never sees what the host writes there."""
    behind: dict[int, Any] = {}

    def allocate(original: Driver, wanted: Any, address: Any) -> Any:
        status = original.allocate(None, wanted, address)
        behind[address[0]] = ctypes.create_string_buffer(wanted.contents.bytes)
        return status

    def copy(original: Driver, queue: int, destination: int, source: int, size: int) -> int:
        to, from_ = behind.get(destination, destination), behind.get(source, source)
        ctypes.memmove(to, from_, size)
        return Status.OK

    copies = ("copy_host_to_device", "copy_device_to_device", "copy_device_to_host")
    return replaced(allocate=allocate, **dict.fromkeys(copies, copy))()


def message(text: bytes | None) -> Use:
    """A driver that fails with this message."""

    def change(table: Driver, original: Driver) -> None:
        table.last_error = LastError(lambda _: text)
        table.queue_create = FUNCTIONS["queue_create"](lambda *_: Status.DEVICE_LOST)

    return using(change)


def reset() -> object:
    torch.get_device_module("host").reset_device()
    return use_copy()


def communicated() -> object:
    """A group of one rank; the answer says why the driver does not communicate."""
    from torch_outboard.distributed import why_not_by_driver

    torch.distributed.init_process_group(store=torch.distributed.HashStore(), rank=0, world_size=1)
    x = torch.ones(3, device="host")
    torch.distributed.all_reduce(x)
    reason = why_not_by_driver()
    torch.distributed.destroy_process_group()
    return x.tolist(), reason


# ---- All of them ----

TABLE = "RuntimeError: device 'host' is not available: the driver's table "
VERSION = (
    f"RuntimeError: device 'host' is not available: the driver was written for version "
    f"{contract.VERSION_MAJOR + 1} of the driver contract and this torch_outboard speaks version "
    f"{contract.VERSION_MAJOR}; install versions of both that match"
)
DEVICE = "RuntimeError: driver 'host' cannot be used: it says that device 0 "
COPIES = (
    "AcceleratorError: driver 'host' returned error from `allocate`: it returned OK from copies to "
    "the device, on it and back to the host, and other bytes came back than were sent"
)
NOTHING = "returned OK and stored nothing"
UNTOUCHABLE = "mapped memory that the host cannot touch"


def answer(function: str, words: str) -> str:
    return f"AcceleratorError: driver 'host' returned error from `{function}`: it {words}"


def lost(words: str) -> str:
    return f"AcceleratorError: driver 'host' returned device lost from `queue_create`: {words}"


# Properties, and what is said of them.
IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"addressing": 7}, "has addressing 7, and there are 0 (pointers) and 1 (handles)"),
    ({"host_access": -3}, "has host access -3, and there are 0 (none) and 1 (coherent)"),
    ({"total_memory": 0}, "has 0 bytes of memory"),
    ({"total_memory": 2**64 - 1}, "has 18446744073709551615 bytes of memory, more than any device"),
    ({"total_memory": 1 << 30, "max_allocation": 1 << 31},
     "gives up to 2147483648 bytes in one allocation"),
    ({"alignment": 48}, "aligns memory to 48 bytes, which is not a power of two"),
    ({"compute_units": 2**32 - 1}, "has 4294967295 compute units, more than any device"),
    ({"max_work_group_size": 8, "subgroup_size": 16},
     "has sub-groups of 16 work-items in work-groups of up to 8"),
    ({"least_priority": -1, "greatest_priority": 3},
     "has queues of priorities from 3 (most urgent) to -1 (least urgent)"),
]  # fmt: skip
# Each lie, and how the answer to it begins.
WRONG_TABLES: list[tuple[Use, str]] = [
    (use_copy, "returned [2.0, 2.0, 2.0]"),
    # the table
    (field("name", None), TABLE + "lacks `name`"),
    (field("name", b"ger\xe4t"), TABLE + "has a `name` that is not UTF-8"),
    (field("struct_size", Driver.fill.offset + 4),
     TABLE + "says it has 292 bytes, which ends within a field"),
    (field("struct_size", 0), TABLE + "says it has 0 bytes"),
    (field("struct_size", 64), TABLE + "lacks `"),
    (field("struct_size", 2 * ctypes.sizeof(Driver)), "returned [2.0, 2.0, 2.0]"),
    (field("major", contract.VERSION_MAJOR + 1), VERSION),
    (field("minor", contract.VERSION_MINOR + 7), "returned [2.0, 2.0, 2.0]"),
    (without("fill"), TABLE + "lacks `fill`"),
    (field("last_error", LastError()), TABLE + "lacks `last_error`"),
    (using(counts_its_context), "returned [2.0, 2.0, 2.0]"),
    (given(0), "ValueError: the table of driver 'host' is a null pointer"),
    (given(3.5), "TypeError: a driver is given as"),
    (without("host_deallocate"), TABLE + "has `host_allocate` and lacks `host_deallocate`"),
    # properties
    *((properties(**fields), DEVICE + words) for fields, words in IMPOSSIBLE),
    (maps(granularity=3 << 20),
     DEVICE + "maps memory in multiples of 3145728 bytes, and has `memory_map`"),
    (properties(size=8),
     "RuntimeError: driver 'host' wrote past the properties of device 0: it was"),
    (names_that_are_not_utf8, "returned ['chip ?\u00e9 ', 126, '??', '1???']"),
    (devices(1000), "returned 64"),
    (devices(-3), "RuntimeError: driver 'host' reports -3 devices"),
    (devices(0), "RuntimeError: device host:0 was asked for, but driver 'host' found no device"),
    # failures
    (faulty("fail=initialize:1", twice),
     "returned (True, \"device 'host' is not available: `initialize` returned error"),
    (faulty("fail=device_count:1", twice), "returned (False, [2.0, 2.0, 2.0])"),  # asked again
    # messages
    (message(b"kein Ger\xe4t"), lost("kein Ger?t")),
    (message(None), lost("it gave no reason")),
]  # fmt: skip
WRONG_ANSWERS: list[tuple[Use, str]] = [
    (given(4096), TABLE + "does not lie in memory that can be read"),
    (lies("queue_create"), answer("queue_create", NOTHING)),
    (lies("event_create", use=then(lambda: torch.Event("host").record())),
     answer("event_create", NOTHING)),
    (lies("allocate"), answer("allocate", "returned OK from `allocate` and gave no address")),
    (lies("host_allocate", use=then(lambda: torch.ones(3).pin_memory())),
     answer("host_allocate", NOTHING)),
    (lies("copy_host_to_device"), COPIES),
    (lies("copy_device_to_device"), COPIES),
    (replaced(two_segments, allocate=moved(the_first)),
     answer("allocate", "gave memory that is in use already, at 0x")),
    (replaced(allocate=moved(lambda address: address + 4, more=64)),
     answer("allocate", "gave memory that is not aligned as")),
    (replaced(allocate=moved(lambda _: 2**64 - 4096)),
     answer("allocate", "gave memory that reaches past the last address")),
    (replaced(then(torch.accelerator.get_memory_info), memory_info=answering(5, 3)),
     answer("memory_info", "says that 5 of 3 bytes are free")),
    (replaced(timed_events, event_elapsed=answering(float("nan"))),
     answer("event_elapsed", "returned OK and a time of nan ms")),
    (replaced(then(_C.testing.event_time), event_time=answering(12345)),
     answer("event_time", "returned OK and a time of 12345 ns, and it is ")),
    (maps(address_reserve=does_nothing), answer("address_reserve", NOTHING)),
    (maps(memory_map=does_nothing), answer("memory_map", UNTOUCHABLE)),
    (separate(replaced(then(sent), memory_export=no_descriptor)),
     answer("memory_export", "returned OK and gave no open descriptor")),
    (separate(lies("memory_import", use=then(received))), answer("memory_import", NOTHING)),
    (separate(replaced(then(received), allocate=remember, memory_import=same_import)),
     answer("memory_import", "gave memory that is in use already")),
    (lies("communicator_create", use=then(communicated)),
     "returned ([1.0, 1.0, 1.0], 'it returned OK and stored nothing; "),
    (lies("device_reset", use=then(reset)), "returned [2.0, 2.0, 2.0]"),
    # memory
    (separate(properties(host_access=contract.HostAccess.COHERENT)),
     answer("allocate", "says that the host can touch the memory of the device")),
    (incoherent, answer("allocate", "says that host and device see each other's writes")),
    (features_claimed,
     answer("allocate", "says that any memory of the host is memory of the device")),
]  # fmt: skip


def run_all(lies: list[tuple[Use, str]]) -> list[str]:
    """The outcomes that are not the expected ones."""
    outcomes = [(expected, in_child(lie)) for lie, expected in lies]
    return [f"{each!r} for {wanted!r}" for wanted, each in outcomes if not each.startswith(wanted)]
