"""All settings: the environment variables of the kit and of its drivers, with their values.

The runtime and the drivers read theirs themselves (`csrc/runtime/settings.h`,
`drivers/common/system.h`), by the same ranges; tests compare the two.
"""

from __future__ import annotations

from typing import NamedTuple

from torch_outboard.drivers.discovery import SHIPPED_DRIVERS


class Setting(NamedTuple):
    """An environment variable.

    Attributes:
        name: the full name, with the prefix.
        kind: "flag" (0 or 1), "whole" or "number" (from `low` to `high`), "choice" (one of
            `choices`), "list" (words between commas, of `choices` if there are any) or "text".
        meaning: its effect, as a part of a sentence in Markdown.
        default: the effect if it is unset or empty, also as a part of a sentence in Markdown.
        low: smallest number.
        high: largest number.
        choices: the allowed words.
        for_tests: whether it is only for tests, not for users.
    """

    name: str
    kind: str
    meaning: str
    default: str
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    for_tests: bool = False

    @property
    def driver(self) -> str:
        """The only driver that reads it; "" for a setting of the kit."""
        word = self.name.split("_")[1].lower()
        return word if word in SHIPPED_DRIVERS else ""


_POLICIES = ("allow", "warn", "error")

TABLE = (
    Setting(
        "OUTBOARD_DRIVER",
        "text",
        "name of an installed driver, or path of a `libob_<name>.so`",
        "`ocl`",
    ),
    Setting(
        "OUTBOARD_PLACEMENT",
        "choice",
        "where operators run: `auto` is the CPU's kernels on a CPU that shares the host's memory, "
        "else device kernels",
        "`auto`",
        choices=("auto", "device", "host"),
    ),
    Setting(
        "OUTBOARD_BLOCKING",
        "flag",
        "`1`: every launch of a device kernel waits for the kernel, so that the call itself raises "
        "its errors",
        "`0`",
    ),
    Setting(
        "OUTBOARD_VALIDATE",
        "flag",
        "`1`: the answers of the driver are compared with `outboard/driver.h`, and a wrong answer "
        "becomes an error that names it",
        "`0`; `1` in `doctor` and `check`",
    ),
    Setting(
        "OUTBOARD_WORK_IN_FLIGHT",
        "whole",
        "largest number of unfinished driver calls per queue; at the limit, the next call waits; "
        "`0`: no limit",
        "1024",
        high=10**15,
    ),
    Setting(
        "OUTBOARD_WAIT_WARNING",
        "number",
        "seconds after which a wait for the driver is reported; `0`: never",
        "60",
        high=1e9,
    ),
    Setting(
        "OUTBOARD_WAIT_TIMEOUT",
        "number",
        "seconds after which waits for the driver give up and raise `RuntimeError`; `0`: never",
        "0",
        high=1e9,
    ),
    Setting(
        "OUTBOARD_COMPILE_NOTICE",
        "number",
        "seconds of compiling after which a line on the standard error stream says so, once per "
        "process; `0`: never",
        "3",
        high=1e9,
    ),
    Setting(
        "OUTBOARD_CACHE_DIR",
        "text",
        "folder of compiled kernels; if it is set and empty, kernels are not cached on disk, and "
        "PoCL compiles in a temporary folder, deleted at exit",
        "`torch_outboard/programs` in the user's cache folder",
    ),
    Setting(
        "OUTBOARD_CACHE_LIMIT",
        "whole",
        "limit of that folder in bytes, at which the least recently used kernels are deleted; "
        "`0`: no limit",
        "2 GiB",
        high=2**63 - 1,
    ),
    Setting(
        "OUTBOARD_CACHE_SHARED",
        "flag",
        "`1`: that folder and its files may be owned or writable by other users, who can then run "
        "code in your programs",
        "`0`: such a folder is refused",
    ),
    Setting(
        "OUTBOARD_COMMUNICATION",
        "choice",
        "implementation of `torch.distributed`: `auto` is the driver if it can communicate, else "
        "Gloo; `driver` raises an error if it cannot",
        "`auto`",
        choices=("auto", "driver", "gloo"),
    ),
    Setting(
        "OUTBOARD_FALLBACK_HOST",
        "choice",
        "policy for operators that run on the host in memory of the device",
        "`allow`",
        choices=_POLICIES,
    ),
    Setting(
        "OUTBOARD_FALLBACK_COPIED",
        "choice",
        "policy for operators that run on the host on copies",
        "`warn`",
        choices=_POLICIES,
    ),
    Setting(
        "OUTBOARD_FALLBACK_ALLOW",
        "list",
        "operators that may run on the host whatever the policies say",
        "none",
    ),
    Setting(
        "OUTBOARD_FALLBACK_DENY",
        "list",
        "operators that may not run on the host whatever the policies say",
        "none",
    ),
    Setting("OUTBOARD_HOST_DEVICES", "whole", "number of devices", "2", high=64),
    Setting(
        "OUTBOARD_HOST_MEMORY",
        "whole",
        "bytes of each device",
        "half of the machine's memory, divided equally",
        low=1,
        high=2**46,
    ),
    Setting(
        "OUTBOARD_HOST_ACCESS",
        "choice",
        "`separate`: the host cannot touch device memory",
        "`shared`",
        choices=("shared", "separate"),
    ),
    Setting(
        "OUTBOARD_HOST_THREADS",
        "whole",
        "threads that run a kernel",
        "the processors that the process may use",
        low=1,
        high=256,
    ),
    Setting(
        "OUTBOARD_CLANG",
        "text",
        "command of the clang that compiles kernels for `host` and `riscv`, or `none`",
        "that of the package `ziglang`, else the newest on `PATH`",
    ),
    Setting(
        "OUTBOARD_CLANG_SECONDS",
        "whole",
        "seconds after which a clang is ended",
        "300",
        low=1,
        high=86400,
    ),
    Setting(
        "OUTBOARD_CLANG_DIALECT",
        "text",
        "folder of the headers that make OpenCL C of clang's C",
        "that of the package",
    ),
    Setting(
        "OUTBOARD_RISCV_DEVICES",
        "whole",
        "number of devices",
        "1",
        low=1,
        high=16,
    ),
    Setting(
        "OUTBOARD_RISCV_MEMORY",
        "whole",
        "bytes of each device",
        "a quarter of the machine's memory, divided equally",
        low=1,
        high=2**37,
    ),
    Setting(
        "OUTBOARD_RISCV_TIME_LIMIT",
        "whole",
        "seconds that one launch may take",
        "600",
        low=1,
        high=86400,
    ),
    Setting(
        "OUTBOARD_RISCV_UNICORN",
        "text",
        "library of the emulator",
        "that of the package `unicorn`, then the system's",
    ),
    Setting(
        "OUTBOARD_OCL_DEVICES",
        "list",
        "which OpenCL devices, in this order: numbers, or parts of `platform/device`",
        "all",
    ),
    Setting(
        "OUTBOARD_OCL_LIBRARY",
        "text",
        "an OpenCL loader or driver to use instead of those that are found",
        "those that are found",
    ),
    Setting(
        "OUTBOARD_OCL_MEMORY",
        "choice",
        "how the driver holds memory",
        "by device",
        choices=("shared", "coarse", "handles"),
    ),
    Setting(
        "OUTBOARD_OCL_MEMORY_BYTES",
        "whole",
        "bytes of each device",
        "its memory; for a CPU, half of the machine's memory",
        low=1,
        high=2**60,
    ),
    Setting(
        "OUTBOARD_OCL_PROCESSOR",
        "text",
        "LLVM's name of the processor that the packaged PoCL compiles for; `unknown`: as if it had "
        "found none",
        "the one it finds, or the nearest that its compiler knows",
    ),
    Setting(
        "OUTBOARD_OCL_COMPILER_PROCESSES",
        "whole",
        "how many processes may compile for the packaged PoCL, never more than cores; `0`, or one "
        "core: this process compiles",
        "4",
        high=64,
    ),
    Setting(
        "OUTBOARD_OCL_COPIES",
        "whole",
        "number of devices that the driver reports for each OpenCL device",
        "1",
        low=1,
        high=16,
        for_tests=True,
    ),
    Setting(
        "OUTBOARD_OCL_MASK",
        "list",
        "features that devices do not report",
        "nothing",
        choices=("float16", "float64", "subgroups", "matrix_units"),
        for_tests=True,
    ),
    Setting(
        "OUTBOARD_OCL_EVENTS",
        "choice",
        "whether each command has an event, or events are made when they are asked for",
        "by device",
        choices=("each", "late"),
        for_tests=True,
    ),
    Setting(
        "OUTBOARD_FAULTS",
        "text",
        "faults injected between kit and driver; `torch_outboard/drivers/faults/faults.cpp` lists "
        "them",
        "none",
        for_tests=True,
    ),
)
SETTINGS = {setting.name: setting for setting in TABLE}
