"""The driver contract, `outboard/driver.h`, for `ctypes`.

Enough to call a driver from Python, or to write one: create a `Driver`, set `major`, `minor`,
`struct_size`, `name` and the functions (each wrapped in its type from `FUNCTIONS`), and keep it
alive until the process ends. The header says what every field and function means; names here are
the header's without its prefix.
"""

import ctypes
import enum
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, TypeVar

VERSION_MAJOR = 2
VERSION_MINOR = 2
ENTRY_POINT = "ob_driver_table"
LAYER_ENTRY_POINT = "ob_wrap_driver"


class Status(enum.IntEnum):
    """Statuses of driver functions; for all but the first two, `last_error` has a message."""

    OK = 0
    NOT_READY = 1
    OUT_OF_MEMORY = 2
    INVALID_ARGUMENT = 3
    UNSUPPORTED = 4
    BUILD_FAILED = 5
    DEVICE_LOST = 6
    ERROR = 7


class Addressing(enum.IntEnum):
    """The form in which kernels receive memory."""

    POINTER = 0
    HANDLE = 1


class HostAccess(enum.IntEnum):
    """Access of the host to memory at a device address."""

    NONE = 0
    COHERENT = 1


class DeviceKind(enum.IntEnum):
    """The kind of a device; informative."""

    OTHER = 0
    CPU = 1
    GPU = 2
    ACCELERATOR = 3


class DType(enum.IntFlag):
    """Dtypes that kernels of a device can compute with, or its library may be offered."""

    BOOL = 1 << 0
    UINT8 = 1 << 1
    INT8 = 1 << 2
    INT16 = 1 << 3
    INT32 = 1 << 4
    INT64 = 1 << 5
    FLOAT16 = 1 << 6
    BFLOAT16 = 1 << 7
    FLOAT32 = 1 << 8
    FLOAT64 = 1 << 9
    COMPLEX64 = 1 << 10
    COMPLEX128 = 1 << 11
    UINT16 = 1 << 12
    UINT32 = 1 << 13
    UINT64 = 1 << 14
    FLOAT8_E4M3FN = 1 << 15
    FLOAT8_E5M2 = 1 << 16
    FLOAT8_E4M3FNUZ = 1 << 17
    FLOAT8_E5M2FNUZ = 1 << 18
    FLOAT8_E8M0FNU = 1 << 19


class Feature(enum.IntFlag):
    """Optional capabilities of a device."""

    HOST_MEMORY_IS_DEVICE_MEMORY = 1 << 0
    LAUNCH_EVENTS = 1 << 1
    MATRIX_UNITS = 1 << 2
    WARPGROUPS = 1 << 3
    COMPILER_CACHE = 1 << 4


class AllocationFlag(enum.IntFlag):
    """Flags of an allocation."""

    SHAREABLE = 1 << 0


class DeviceStateField(enum.IntFlag):
    """Fields of `DeviceState` that a driver reports."""

    UTILIZATION = 1 << 0
    MEMORY_UTILIZATION = 1 << 1
    TEMPERATURE = 1 << 2
    POWER = 1 << 3
    CLOCK = 1 << 4


class EventFlag(enum.IntFlag):
    """Flags of an event."""

    TIMING = 1 << 0


class ArgumentKind(enum.IntEnum):
    """Kinds of arguments of a kernel."""

    ADDRESS = 0
    VALUE = 1
    LOCAL = 2


class Activation(enum.IntEnum):
    """The function that a library call applies to the elements of its result."""

    NONE = 0
    RELU = 1
    GELU = 2
    GELU_TANH = 3
    SILU = 4


class LibraryFlag(enum.IntFlag):
    """Flags of library calls."""

    DETERMINISTIC = 1 << 0
    REDUCED_PRECISION = 1 << 1


class ConvolutionPass(enum.IntEnum):
    """The operand that a convolution writes."""

    FORWARD = 0
    BACKWARD_INPUT = 1
    BACKWARD_WEIGHT = 2


class CommunicationKind(enum.IntEnum):
    """The operation of ranks together."""

    ALL_REDUCE = 0
    REDUCE = 1
    BROADCAST = 2
    ALL_GATHER = 3
    REDUCE_SCATTER = 4
    SEND = 5
    RECEIVE = 6


class Reduction(enum.IntEnum):
    """The reduction operation of ranks."""

    SUM = 0
    PRODUCT = 1
    MINIMUM = 2
    MAXIMUM = 3
    AVERAGE = 4


Address = c_uint64
Queue = c_void_p
Event = c_void_p
Program = c_void_p
Kernel = c_void_p
Graph = c_void_p
Communicator = c_void_p


class DeviceProperties(ctypes.Structure):
    """`ob_device_properties`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("name", c_char * 128),
        ("vendor", c_char * 64),
        ("driver_version", c_char * 64),
        ("kind", c_int32),
        ("addressing", c_int32),
        ("host_access", c_int32),
        ("dtypes", c_uint32),
        ("features", c_uint32),
        ("total_memory", c_uint64),
        ("max_allocation", c_uint64),
        ("alignment", c_uint32),
        ("compute_units", c_uint32),
        ("preferred_vector_width", c_uint32),
        ("max_work_group_size", c_uint32),
        ("local_memory", c_uint32),
        ("subgroup_size", c_uint32),
        ("least_priority", c_int32),
        ("greatest_priority", c_int32),
        ("source_prelude", c_char_p),
        ("mapping_granularity", c_uint64),
    )


class DeviceState(ctypes.Structure):
    """`ob_device_state`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("known", c_uint32),
        ("utilization", c_double),
        ("memory_utilization", c_double),
        ("temperature", c_double),
        ("power", c_double),
        ("clock", c_double),
    )


class Allocation(ctypes.Structure):
    """`ob_allocation`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("bytes", c_uint64),
        ("flags", c_uint32),
    )


class MemoryHandle(ctypes.Structure):
    """`ob_memory_handle`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("descriptor", c_int32),
        ("bytes", c_uint64),
        ("data", c_ubyte * 64),
    )


class HostAllocation(ctypes.Structure):
    """`ob_host_allocation`."""

    _fields_ = (("struct_size", c_size_t), ("bytes", c_uint64))


class QueueDescription(ctypes.Structure):
    """`ob_queue_description`."""

    _fields_ = (("struct_size", c_size_t), ("device", c_int32), ("priority", c_int32))


class EventDescription(ctypes.Structure):
    """`ob_event_description`."""

    _fields_ = (("struct_size", c_size_t), ("device", c_int32), ("flags", c_uint32))


class ProgramSource(ctypes.Structure):
    """`ob_program_source`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("source", c_char_p),
        ("options", c_char_p),
    )


class ProgramImage(ctypes.Structure):
    """`ob_program_image`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("device", c_int32),
        ("data", c_void_p),
        ("bytes", c_uint64),
    )


class Argument(ctypes.Structure):
    """`ob_argument`."""

    _fields_ = (
        ("kind", c_int32),
        ("size", c_uint32),
        ("address", Address),
        ("value", c_void_p),
    )


class Launch(ctypes.Structure):
    """`ob_launch`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("kernel", Kernel),
        ("dimensions", c_uint32),
        ("global_size", c_uint64 * 3),
        ("local_size", c_uint64 * 3),
        ("arguments", POINTER(Argument)),
        ("argument_count", c_uint32),
        ("argument_bytes", c_uint32),
        ("start", Event),
        ("end", Event),
    )


class KernelAttributes(ctypes.Structure):
    """`ob_kernel_attributes`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("max_work_group_size", c_uint32),
        ("local_memory", c_uint32),
    )


class Tensor(ctypes.Structure):
    """`ob_tensor`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("data", Address),
        ("dtype", c_uint32),
        ("dimensions", c_uint32),
        ("sizes", c_int64 * 8),
        ("strides", c_int64 * 8),
    )


class MatrixProduct(ctypes.Structure):
    """`ob_matrix_product`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("a", POINTER(Tensor)),
        ("b", POINTER(Tensor)),
        ("out", POINTER(Tensor)),
        ("added", POINTER(Tensor)),
        ("bias", POINTER(Tensor)),
        ("bias_dimension", c_uint32),
        ("activation", c_int32),
        ("alpha", c_double * 2),
        ("beta", c_double * 2),
        ("accumulation", c_uint32),
        ("flags", c_uint32),
        ("workspace_query", POINTER(c_uint64)),
        ("workspace", Address),
        ("workspace_bytes", c_uint64),
    )


class Convolution(ctypes.Structure):
    """`ob_convolution`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("pass_", c_int32),
        ("spatial_dimensions", c_uint32),
        ("input", POINTER(Tensor)),
        ("weight", POINTER(Tensor)),
        ("output", POINTER(Tensor)),
        ("bias", POINTER(Tensor)),
        ("stride", c_int64 * 3),
        ("padding", c_int64 * 3),
        ("dilation", c_int64 * 3),
        ("groups", c_int64),
        ("activation", c_int32),
        ("accumulation", c_uint32),
        ("flags", c_uint32),
        ("workspace_query", POINTER(c_uint64)),
        ("workspace", Address),
        ("workspace_bytes", c_uint64),
    )


class CommunicatorId(ctypes.Structure):
    """`ob_communicator_id`."""

    _fields_ = (("struct_size", c_size_t), ("data", c_ubyte * 128))


class CommunicatorDescription(ctypes.Structure):
    """`ob_communicator_description`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("id", POINTER(CommunicatorId)),
        ("device", c_int32),
        ("rank", c_uint32),
        ("ranks", c_uint32),
    )


class Communication(ctypes.Structure):
    """`ob_communication`."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("kind", c_int32),
        ("reduction", c_int32),
        ("dtype", c_uint32),
        ("peer", c_uint32),
        ("elements", c_uint64),
        ("source", Address),
        ("destination", Address),
        ("timeout", c_uint64),
    )


HostFunction = CFUNCTYPE(None, c_void_p)

# The pitches and extents that end the 2-D copies: source pitch, bytes of a row, rows.
_ROWS = (c_uint64, c_uint64, c_uint64)

# Types of the arguments of every function that returns a status, in the order of the table and
# without the context, which comes first.
_SIGNATURES: dict[str, tuple[type, ...]] = {
    "initialize": (),
    "finalize": (),
    "device_count": (POINTER(c_int32),),
    "device_properties": (c_int32, POINTER(DeviceProperties)),
    "device_state": (c_int32, POINTER(DeviceState)),
    "peer_access": (c_int32, c_int32, POINTER(c_int32)),
    "allocate": (POINTER(Allocation), POINTER(Address)),
    "deallocate": (c_int32, Address),
    "memory_info": (c_int32, POINTER(c_uint64), POINTER(c_uint64)),
    "host_allocate": (POINTER(HostAllocation), POINTER(c_void_p)),
    "host_deallocate": (c_void_p,),
    "queue_create": (POINTER(QueueDescription), POINTER(Queue)),
    "queue_destroy": (Queue,),
    "queue_query": (Queue,),
    "queue_synchronize": (Queue,),
    "device_synchronize": (c_int32,),
    "queue_native_handle": (Queue, POINTER(c_void_p)),
    "event_create": (POINTER(EventDescription), POINTER(Event)),
    "event_destroy": (Event,),
    "event_record": (Event, Queue),
    "event_wait": (Queue, Event),
    "event_query": (Event,),
    "event_synchronize": (Event,),
    "event_elapsed": (Event, Event, POINTER(c_double)),
    "copy_host_to_device": (Queue, Address, c_void_p, c_uint64),
    "copy_device_to_host": (Queue, c_void_p, Address, c_uint64),
    "copy_device_to_device": (Queue, Address, Address, c_uint64),
    "copy_peer": (Queue, c_int32, Address, c_int32, Address, c_uint64),
    "copy_host_to_device_2d": (Queue, Address, c_uint64, c_void_p, *_ROWS),
    "copy_device_to_host_2d": (Queue, c_void_p, c_uint64, Address, *_ROWS),
    "copy_device_to_device_2d": (Queue, Address, c_uint64, Address, *_ROWS),
    "fill": (Queue, Address, c_void_p, c_uint32, c_uint64),
    "host_callback": (Queue, HostFunction, c_void_p),
    "program_build": (POINTER(ProgramSource), POINTER(Program)),
    "program_binary": (Program, c_void_p, POINTER(c_uint64)),
    "program_load": (POINTER(ProgramImage), POINTER(Program)),
    "program_release": (Program,),
    "kernel_create": (Program, c_char_p, POINTER(Kernel)),
    "kernel_release": (Kernel,),
    "kernel_attributes": (Kernel, POINTER(KernelAttributes)),
    "launch": (Queue, POINTER(Launch)),
    "matrix_product": (Queue, POINTER(MatrixProduct)),
    "convolution": (Queue, POINTER(Convolution)),
    "graph_begin": (Queue,),
    "graph_end": (Queue, POINTER(Graph)),
    "graph_launch": (Queue, Graph),
    "graph_release": (Graph,),
    "event_time": (Event, POINTER(c_uint64)),
    "host_register": (c_void_p, c_uint64),
    "host_unregister": (c_void_p,),
    "memory_export": (c_int32, Address, POINTER(MemoryHandle)),
    "memory_import": (c_int32, POINTER(MemoryHandle), POINTER(Address)),
    "memory_close": (c_int32, Address),
    "device_reset": (c_int32,),
    "address_reserve": (c_int32, c_uint64, POINTER(Address)),
    "address_release": (c_int32, Address, c_uint64),
    "memory_map": (c_int32, Address, c_uint64),
    "memory_unmap": (c_int32, Address, c_uint64),
    "communicator_id": (POINTER(CommunicatorId),),
    "communicator_create": (POINTER(CommunicatorDescription), POINTER(Communicator)),
    "communicator_destroy": (Communicator,),
    "communicator_abort": (Communicator,),
    "communicator_error": (Communicator,),
    "communicate": (Queue, Communicator, POINTER(Communication)),
    "communication_begin": (),
    "communication_end": (),
}

# Functions that may be NULL in a table; the header describes the consequences.
OPTIONAL = frozenset(
    (
        "finalize", "device_state", "peer_access", "kernel_attributes", "memory_info",
        "host_allocate", "host_deallocate", "device_synchronize", "queue_native_handle",
        "copy_peer", "copy_host_to_device_2d", "copy_device_to_host_2d", "copy_device_to_device_2d",
        "host_callback", "program_build", "program_binary", "program_load", "program_release",
        "kernel_create", "kernel_release", "launch", "matrix_product", "convolution", "graph_begin",
        "graph_end", "graph_launch", "graph_release", "event_time", "host_register",
        "host_unregister", "memory_export", "memory_import", "memory_close", "device_reset",
        "address_reserve", "address_release", "memory_map", "memory_unmap", "communicator_id",
        "communicator_create", "communicator_destroy", "communicator_abort", "communicator_error",
        "communicate", "communication_begin", "communication_end",
    )
)  # fmt: skip

# The ctypes type that wraps a Python function, by its name in the table.
FUNCTIONS = {name: CFUNCTYPE(c_int32, c_void_p, *types) for name, types in _SIGNATURES.items()}


class Driver(ctypes.Structure):
    """`ob_driver`: the table. The value of an unimplemented function is false."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("context", c_void_p),
        ("last_error", CFUNCTYPE(c_char_p, c_void_p)),
        *FUNCTIONS.items(),
    )


Struct = TypeVar("Struct", bound=ctypes.Structure)


def described(kind: type[Struct], **fields: Any) -> Struct:
    """A struct of the contract with its `struct_size` and these fields set."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def load(path: str) -> Driver:
    """The table of a driver's shared library.

    Raises:
        OSError: if the library cannot be loaded.
        AttributeError: if it does not export the entry point.
    """
    entry_point = getattr(ctypes.CDLL(path), ENTRY_POINT)
    entry_point.restype = POINTER(Driver)
    table: Driver = entry_point().contents
    return table


def wrap(driver: Driver, path: str) -> Driver:
    """The table of the layer in a shared library, such as `faults`, around a driver's table.

    Raises:
        OSError: if the library cannot be loaded.
        AttributeError: if it does not export the entry point.
        ValueError: if the layer cannot wrap the driver; the message says why.
    """
    entry_point = getattr(ctypes.CDLL(path), LAYER_ENTRY_POINT)
    entry_point.restype = POINTER(Driver)
    problem = ctypes.c_char_p()
    table = entry_point(ctypes.byref(driver), ctypes.byref(problem))
    if not table:
        raise ValueError((problem.value or b"the layer returned no table").decode())
    wrapped: Driver = table.contents
    return wrapped
