"""The stubs behind PyTorch's operators, as the installed PyTorch has them.

A stub exists in PyTorch's library as a variable for each instruction set of the CPU. The names of
those variables are in its table of symbols, and say the name of the stub and its kernel's type.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from torch_outboard import _C

__all__ = ["Stub", "stubs"]

# The variable for any CPU; demangled: "at::native::DispatchStub<void (*)(at::TensorIteratorBase&),
# at::native::abs_stub_DECLARE_DISPATCH_type>::DEFAULT".
_VARIABLE = re.compile(rb"_ZN2at6native12DispatchStubI\w+7DEFAULTE")
_DEMANGLED = re.compile(
    r"DispatchStub<(?P<kernel>.*), at::native::(?P<name>[\w:]+)_DECLARE_DISPATCH_type>::DEFAULT"
)
_SHORTER = {"at::native::": "", "c10::": "", "at::": "", "std::": "", " (*)": ""}


@dataclass(frozen=True)
class Stub:
    """A stub of the installed PyTorch.

    Attributes:
        name: in at::native, as `REGISTER_PRIVATEUSE1_DISPATCH` takes it.
        signature: of its kernels, for example "void(TensorIteratorBase&)".
        operators: overloads of `aten` whose implementation asks it for the device of their
            tensors, and those that are composed of them are served, too; none: PyTorch calls it
            for the CPU alone, or for other layouts.
        bound_by: who has put a kernel there for this device: `"torch_outboard"` (the CPU's own,
            for memory that host and device share), the path of a library, or "".
    """

    name: str
    signature: str
    operators: tuple[str, ...]
    bound_by: str


def stubs() -> list[Stub]:
    """All stubs, sorted by name.

    Raises:
        RuntimeError: if PyTorch's library has no table of symbols that can be read.
    """
    operators = _C.stub_operators()
    found = []
    for name, signature in sorted(_signatures().items()):
        exists, filled, by_kit, library = _C.stub_state(name)
        if not exists:
            continue
        bound_by = "torch_outboard" if by_kit else library or "unknown" if filled else ""
        found.append(Stub(name, signature, tuple(operators.get(name, "").split()), bound_by))
    return found


@functools.cache
def _signatures() -> dict[str, str]:
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    found = {}
    for symbol in _names_of_symbols(path):
        match = _DEMANGLED.search(_demangled(symbol))
        if match is not None:
            signature = match["kernel"]
            for long, short in _SHORTER.items():
                signature = signature.replace(long, short)
            found[match["name"]] = signature
    if not found:
        raise RuntimeError(
            f"{path} has no symbols of stubs; this PyTorch hides what its headers declare"
        )
    return found


def _names_of_symbols(path: str) -> Iterator[bytes]:
    """The symbols of stubs in the string table that the dynamic linker reads (ELF, 64 bit)."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"\x7fELF" or data[4] != 2:
            raise RuntimeError(f"{path} is no 64-bit ELF file, so its stubs cannot be listed")
        (sections,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        for index in range(count):
            at = sections + index * size
            (kind,) = struct.unpack_from("<I", data, at + 4)
            if kind != 11:  # SHT_DYNSYM
                continue
            (link,) = struct.unpack_from("<I", data, at + 40)
            offset, length = struct.unpack_from("<QQ", data, sections + link * size + 24)
            yield from _VARIABLE.findall(data, offset, offset + length)


def _demangled(symbol: bytes) -> str:
    library = ctypes.CDLL("libstdc++.so.6")
    demangle = library.__cxa_demangle
    demangle.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    demangle.restype = ctypes.c_void_p
    text = demangle(symbol, None, None, None)
    if not text:
        return ""
    try:
        return ctypes.string_at(text).decode()
    finally:
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free(text)
