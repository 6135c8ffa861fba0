"""Runs a static program for Linux on aarch64 in Unicorn, with the four system calls of tests."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

STACK, STACK_BYTES = 0x7F000000, 1 << 20
EXIT, READ, WRITE = 93, 63, 64
PAGE = 0x1000


def run_in_unicorn(program: Path, given: bytes) -> bytes:
    import unicorn
    from unicorn import arm64_const as registers

    emulator = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    content = program.read_bytes()
    entry, headers = struct.unpack_from("<QQ", content, 24)
    size, count = struct.unpack_from("<HH", content, 54)
    end = 0  # of what is mapped
    for i in range(count):
        kind, _, offset, at, _, in_file, in_memory = struct.unpack_from(
            "<IIQQQQQ", content, headers + i * size
        )
        if kind != 1:  # segments that are loaded, by rising addresses
            continue
        first, last = max(at // PAGE * PAGE, end), -(-(at + in_memory) // PAGE) * PAGE
        if first < last:
            emulator.mem_map(first, last - first)
            end = last
        emulator.mem_write(at, content[offset : offset + in_file])
    emulator.mem_map(STACK, STACK_BYTES)
    emulator.reg_write(registers.UC_ARM64_REG_SP, STACK + STACK_BYTES)
    emulator.reg_write(registers.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # floating point is on
    left, written, status = bytearray(given), bytearray(), [-1]

    def system_call(emulator: Any, _number: int, _data: Any) -> None:
        names = ("X8", "X0", "X1", "X2")
        number, first, address, bytes_ = (
            emulator.reg_read(getattr(registers, f"UC_ARM64_REG_{name}")) for name in names
        )
        if number == READ:
            emulator.mem_write(address, bytes(left[:bytes_]))
            bytes_ = min(bytes_, len(left))
            del left[:bytes_]
        elif number == WRITE:
            written.extend(emulator.mem_read(address, bytes_))
        else:
            status[0] = first if number == EXIT else -1
            emulator.emu_stop()
        emulator.reg_write(registers.UC_ARM64_REG_X0, bytes_)

    emulator.hook_add(unicorn.UC_HOOK_INTR, system_call)
    emulator.emu_start(entry, 0)
    if status[0] != 0:
        raise subprocess.CalledProcessError(status[0], [str(program)])
    return bytes(written)
