"""Fault injection: injects faults between the kit and any driver, and detects misuse.

It is active in a process started with `OUTBOARD_FAULTS` set (`count` only counts calls and checks
their use). The comment at the top of `faults.cpp` beside this file describes the settings. The
functions here change and read the same state at run time, without importing `torch`.
"""

import ctypes
import functools
from collections.abc import Mapping
from pathlib import Path


def library_path() -> str:
    """Path of the shared library that wraps a driver."""
    return str(Path(__file__).parent / "libob_faults.so")


class FaultInjection:
    """The state of one loaded library.

    Args:
        path: the library; loading it again gives the same state.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @functools.cached_property
    def library(self) -> ctypes.CDLL:
        """The library, loaded at first use, with the types of its functions."""
        library = ctypes.CDLL(self._path)
        library.ob_faults_configure.restype = ctypes.c_char_p
        library.ob_faults_report.restype = ctypes.c_char_p
        return library

    def _report(self, kind: str) -> list[str]:
        """Lines of the report that begin with a word, without it."""
        lines = self.library.ob_faults_report().decode().splitlines()
        return [rest for word, _, rest in (line.partition(" ") for line in lines) if word == kind]

    def _counts(self, kind: str) -> dict[str, int]:
        return {name: int(count) for name, count in map(str.split, self._report(kind))}

    def _apply(self, settings: str) -> None:
        problem = self.library.ob_faults_configure(settings.encode())
        if problem is not None:
            raise ValueError(problem.decode())

    def configure(
        self,
        *,
        delay_us: int | None = None,
        limit: int | None = None,
        slow: Mapping[str, int] | None = None,
    ) -> None:
        """Changes the given settings only.

        Args:
            delay_us: delay of each piece of work on a queue, in microseconds.
            limit: bytes that can be allocated on each device; 0 for no limit.
            slow: additional time of a call in microseconds, by function name; `"*"` for all.

        Raises:
            ValueError: for an unknown function, or an invalid number.
        """
        settings = [f"slow={function}:{us}" for function, us in (slow or {}).items()]
        settings += [f"delay_us={delay_us}"] if delay_us is not None else []
        settings += [f"limit={limit}"] if limit is not None else []
        self._apply(",".join(settings))

    def fail(
        self, function: str, nth: int = 1, status: str | int = "error", repeat: bool | str = False
    ) -> None:
        """Makes the `nth` call from now of a driver's function fail.

        Args:
            function: a name of the driver's table, such as `"allocate"`, or `"*"` for any.
            nth: 1 for the next call.
            status: the returned status: a name, `"out_of_memory"`, or its number in `driver.h`.
            repeat: `False`: once; `True`: all calls from then on; `"every"`: each `nth` one.

        Raises:
            ValueError: for an unknown function or status.
        """
        how = repeat if isinstance(repeat, str) else ("on" if repeat else "once")
        self._apply(f"fail={function}:{nth}:{status}:{how}")

    def lie(self, function: str, nth: int = 1, repeat: bool | str = False) -> None:
        """Makes the `nth` call from now of a driver's function return OK and do nothing.

        Args:
            function: a name of the driver's table, or `"*"` for any.
            nth: 1 for the next call.
            repeat: `False`: once; `True`: all calls from then on; `"every"`: each `nth` one.

        Raises:
            ValueError: for an unknown function.
        """
        how = repeat if isinstance(repeat, str) else ("on" if repeat else "once")
        self._apply(f"lie={function}:{nth}:{how}")

    def lose(self, device: int, nth: int = 1) -> None:
        """Makes the `nth` use from now of a device's queues report the device as lost.

        Args:
            device: an index.
            nth: 1 for the next use.

        Raises:
            ValueError: for an invalid number.
        """
        self._apply(f"lose={device}:{nth}")

    def calls(self) -> dict[str, int]:
        """Number of calls per function of the table since the start or `reset`."""
        return self._counts("calls")

    def live(self) -> dict[str, int]:
        """Number of live objects of the driver by kind: allocations, queues, events, ..."""
        return self._counts("live")

    def leaks(self) -> list[str]:
        """A line for each live object: kind, handle, device, bytes."""
        return self._report("leak")

    def misuses(self) -> int:
        """Number of calls refused since loading because the caller used the driver wrongly."""
        return int(self._report("misuses")[0])

    def injected(self) -> int:
        """Number of calls that were made to fail since the start or `reset`."""
        return int(self._report("injected")[0])

    def reset(self) -> None:
        """Resets all settings and counts of calls; live objects stay recorded."""
        self.library.ob_faults_reset()


_faults = FaultInjection(library_path())
configure = _faults.configure
fail = _faults.fail
lie = _faults.lie
lose = _faults.lose
calls = _faults.calls
live = _faults.live
leaks = _faults.leaks
misuses = _faults.misuses
injected = _faults.injected
reset = _faults.reset
