"""The driver contract for `ctypes`, read from the header `outboard/driver.h`.

Enough to call a driver from Python, or to write one: create a `Driver`, set `major`, `minor`,
`struct_size`, `name` and the functions (each wrapped in its type from `FUNCTIONS`), and keep it
alive until the process ends. The header says what every field and function means. Names here are
the header's without its prefix: `ob_device_kind` is `DeviceKind`, `OB_DEVICE_CPU` is
`DeviceKind.CPU`, `ob_device_properties` is `DeviceProperties`. Enumerations of bits, which have no
name in the header, are `DType`, `Feature`, `AllocationFlag`, `DeviceStateField`, `EventFlag` and
`LibraryFlag`.
"""

import ctypes
import enum
import re
from collections.abc import Iterator
from ctypes import POINTER
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


HEADER = (Path(__file__).parents[1] / "include" / "outboard" / "driver.h").read_text()
# Without comments, and without functions that have a body.
_CODE = re.sub(r"/\*.*?\*/|^static inline .*?^\}", "", HEADER, flags=re.S | re.M)

VERSION_MAJOR, VERSION_MINOR = map(int, re.findall(r"define OB_VERSION_\w+ (\d+)u", _CODE))
ENTRY_POINT = "ob_driver_table"
LAYER_ENTRY_POINT = "ob_wrap_driver"


# ---- Enumerations

_BITS = {
    "OB_ALLOCATION": "AllocationFlag",
    "OB_DTYPE": "DType",
    "OB_EVENT": "EventFlag",
    "OB_FEATURE": "Feature",
    "OB_LIBRARY": "LibraryFlag",
    "OB_STATE": "DeviceStateField",
}


def _python_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.removeprefix("ob_").split("_"))


def _enumerations() -> Iterator[tuple[str, Any]]:
    for name, body in re.findall(r"(?:typedef int32_t (\w+);\s*)?enum \{(.*?)\};", _CODE, re.S):
        values = {
            each: int(value) << int(shift or 0)
            for each, value, shift in re.findall(r"(\w+) = (\d+)u?(?: << (\d+))?", body)
        }
        prefix = min(values, key=len).rpartition("_")[0]
        members = {each.removeprefix(prefix + "_"): value for each, value in values.items()}
        if name:
            yield _python_name(name), enum.IntEnum(_python_name(name), members, module=__name__)
        else:
            yield _BITS[prefix], enum.IntFlag(_BITS[prefix], members, module=__name__)


ENUMERATIONS = dict(_enumerations())


# ---- Types, structs and functions

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_TYPES: dict[str, Any] = {
    "char": ctypes.c_char,
    "double": ctypes.c_double,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "ob_host_function": HostFunction,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "unsigned char": ctypes.c_ubyte,
}
_POINTERS: dict[str, Any] = {"char": ctypes.c_char_p, "void": ctypes.c_void_p}
# Fields whose names are keywords of Python, and `local` like `global`.
_RENAMED = {"global": "global_size", "local": "local_size", "pass": "pass_"}


def _type_of(text: str) -> Any:
    """The ctypes type of a type in C, such as `const ob_tensor*`."""
    name = text.replace("const ", "").replace("*", "").strip()
    pointers = text.count("*")
    if pointers and name in _POINTERS:
        kind, pointers = _POINTERS[name], pointers - 1
    else:
        kind = _TYPES[name]
    for _ in range(pointers):
        kind = POINTER(kind)
    return kind


def _parameters(text: str) -> list[Any]:
    """The types of parameters such as `void* context, ob_queue queue`."""
    return [_type_of(re.sub(r"\w+$", "", parameter.strip())) for parameter in text.split(",")]


def _fields(body: str) -> Iterator[tuple[str, Any]]:
    for declaration in body.split(";")[:-1]:
        function = re.fullmatch(r"\s*(.+?)\(\*(\w+)\)\((.*)\)", declaration, re.S)
        if function:
            result, name, parameters = function.groups()
            yield name, ctypes.CFUNCTYPE(_type_of(result), *_parameters(parameters))
            continue
        of, names = re.findall(r"((?:const |unsigned )?\w+\**) (\w.*)", declaration)[0]
        for name, size in re.findall(r"(\w+)(?:\[(\d+)\])?", names):
            yield _RENAMED.get(name, name), _type_of(of) * int(size) if size else _type_of(of)


def _structs() -> Iterator[tuple[str, Any]]:
    """Structs in their order; types that others use enter `_TYPES`."""
    pattern = r"typedef (?:struct (\w+) \{(.*?)\n\} \w+|(struct \w+\*|\w+) (\w+));"
    for struct, body, of, name in re.findall(pattern, _CODE, re.S):
        if not struct:
            _TYPES[name] = ctypes.c_void_p if of.endswith("*") else _type_of(of)
            continue
        contents = {"__doc__": f"`{struct}`.", "__module__": __name__, "_fields_": [*_fields(body)]}
        _TYPES[struct] = type(_python_name(struct), (ctypes.Structure,), contents)
        yield struct, _TYPES[struct]


# By their names in the header.
STRUCTS = dict(_structs())

# The ctypes type that wraps a Python function, by its name in the table.
FUNCTIONS: dict[str, Any] = {
    name: kind
    for name, kind in STRUCTS["ob_driver"]._fields_
    if getattr(kind, "_restype_", None) is ctypes.c_int32
}


def _optional() -> Iterator[str]:
    """Functions that may be NULL, as comments say: about what follows, or about a group."""
    comment, in_group = "", False
    for part in re.split(
        r"(/\*.*?\*/)", HEADER[HEADER.index("typedef struct ob_driver {") :], flags=re.S
    ):
        if part.startswith("/*"):
            comment = part
            in_group = "optional" in part if part.startswith("/* ----") else in_group
        elif in_group or "(optional" in comment:
            yield from re.findall(r"ob_status \(\*(\w+)\)", part)


# Functions that may be NULL in a table; the header describes the consequences.
OPTIONAL = frozenset(_optional())

# Addresses, handles and structs; an enumeration takes the name of its integer type.
globals().update({_python_name(name): kind for name, kind in _TYPES.items() if "ob_" in name})
globals().update(ENUMERATIONS)
Driver: Any = STRUCTS["ob_driver"]

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
    return entry_point().contents


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
    return table.contents
