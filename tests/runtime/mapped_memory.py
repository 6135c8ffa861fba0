"""A driver that puts memory behind reserved addresses: `host`, with these functions added.

Addresses without memory cannot be read or written by anyone, so a mistake ends the process. What is
mapped counts, and `limit` is all that there is.
"""

import ctypes
import mmap
import os
from typing import Any

from torch_outboard.drivers.contract import FUNCTIONS, Driver, Status

MIB = 1 << 20
PIECE = MIB  # the granularity, in bytes
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE
_FORGET = 4  # MADV_DONTNEED

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class MappedMemory:
    """The state of such a driver, for tests."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.granularity = PIECE  # as reported
        self.reserved: dict[int, int] = {}  # bytes by address
        self.mapped: set[int] = set()  # addresses of pieces of PIECE bytes
        self.allocated: dict[int, int] = {}  # bytes by address, of `allocate`
        self.calls: dict[str, int] = {}
        # Functions that answer with a status instead of doing anything, as often as it says.
        self.failures: dict[str, tuple[Status, int]] = {}

    def _fails(self, name: str) -> Status | None:
        self.calls[name] = self.calls.get(name, 0) + 1
        status, times = self.failures.get(name, (Status.OK, 0))
        if times == 0:
            return None
        self.failures[name] = status, times - 1
        return status

    def _has_room(self, size: int) -> bool:
        used = sum(self.allocated.values()) + len(self.mapped) * PIECE
        return used + size <= self.limit

    def _pieces(self, address: int, size: int) -> set[int]:
        """Of a part of reserved addresses.

        Raises:
            AssertionError: if it is none.
        """
        assert size > 0
        assert address % PIECE == size % PIECE == 0
        assert any(
            start <= address and address + size <= start + length
            for start, length in self.reserved.items()
        )
        return set(range(address, address + size, PIECE))

    def add_to(self, table: Driver, original: Driver) -> None:
        """Puts the functions into a table whose driver has one device."""

        def device_count(context: int, count: Any) -> int:
            count[0] = 1
            return Status.OK

        def device_properties(context: int, device: int, result: Any) -> int:
            status: int = original.device_properties(context, device, result)
            result.contents.total_memory = self.limit
            result.contents.max_allocation = 0
            result.contents.mapping_granularity = self.granularity
            return status

        def allocate(context: int, wanted: Any, address: Any) -> int:
            size = wanted.contents.bytes
            if not self._has_room(size):
                return Status.OUT_OF_MEMORY
            status: int = original.allocate(context, wanted, address)
            if status == Status.OK:
                self.allocated[address[0]] = size
            return status

        def deallocate(context: int, device: int, address: int) -> int:
            del self.allocated[address]
            status: int = original.deallocate(context, device, address)
            return status

        def address_reserve(context: int, device: int, size: int, address: Any) -> int:
            if (status := self._fails("address_reserve")) is not None:
                return status
            assert size % PIECE == 0
            # Where it begins is a multiple, too: the ends of a larger range go unused.
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
            start = _libc.mmap(None, size + PIECE, 0, flags, -1, 0)
            assert start not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
            start = -(-start // PIECE) * PIECE
            self.reserved[start] = size
            address[0] = start
            return Status.OK

        def address_release(context: int, device: int, address: int, size: int) -> int:
            assert self.reserved.pop(address) == size
            assert not any(address <= piece < address + size for piece in self.mapped)
            _libc.munmap(address, size)
            return Status.OK

        def memory_map(context: int, device: int, address: int, size: int) -> int:
            if (status := self._fails("memory_map")) is not None:
                return status
            pieces = self._pieces(address, size)
            assert not pieces & self.mapped
            if not self._has_room(size):
                return Status.OUT_OF_MEMORY
            assert _libc.mprotect(address, size, _PROTECTION) == 0
            self.mapped |= pieces
            return Status.OK

        def memory_unmap(context: int, device: int, address: int, size: int) -> int:
            if (status := self._fails("memory_unmap")) is not None:
                return status
            pieces = self._pieces(address, size)
            assert pieces <= self.mapped
            self.mapped -= pieces
            assert _libc.madvise(address, size, _FORGET) == 0
            assert _libc.mprotect(address, size, 0) == 0
            return Status.OK

        for function in (
            device_count, device_properties, allocate, deallocate, address_reserve,
            address_release, memory_map, memory_unmap,
        ):  # fmt: skip
            name = function.__name__
            setattr(table, name, FUNCTIONS[name](function))
