"""Runs PyTorch's CPU kernels in forks, because unusual arguments make some of them corrupt memory.

A kernel that does not check sizes reads and writes beyond its tensors. It may end the process,
spoil a later call, or return what happened to lie there; none of these is a result to compare with.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from torch_outboard.scoreboard.comparison.calls import CPU, Outcome, attempt
from torch_outboard.scoreboard.comparison.differences import tree_difference

if TYPE_CHECKING:
    from torch_outboard.scoreboard.suites.arguments.calls import ArgumentsCall

SECONDS = 8  # of one call, after which it counts as one that does not end
# glibc's mallopt: the byte that memory is filled with, fresh and given back.
M_PERTURB = -6
FILLS = (0x11, 0x6E)


@dataclass
class CpuRun:
    """The outcome of a call on CPU, and its arguments afterwards; or why there is no outcome."""

    outcome: Outcome | None
    arguments: dict[str, Any]
    without: str = ""


def run_each(calls: Sequence[ArgumentsCall], fill: int | None = None) -> Iterator[CpuRun]:
    """Runs the calls one after the other in a fork, and in another behind one that ends it.

    Args:
        fill: the byte that memory holds where nothing was written yet.
    """
    done = 0
    while done < len(calls):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reader)
            _serve(calls[done:], writer, fill)
        os.close(writer)
        try:
            with os.fdopen(reader, "rb") as stream:
                while done < len(calls):
                    try:
                        result = pickle.load(stream)
                    except (EOFError, pickle.UnpicklingError):
                        break
                    done += 1
                    yield result
        finally:
            os.kill(process, signal.SIGKILL)  # in case that the caller wants no more
            status = os.waitpid(process, 0)[1]
        if done < len(calls):
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            name = signal.Signals(number).name if number else f"status {status >> 8}"
            done += 1
            yield CpuRun(None, {}, f"the process ended: {name}")


def is_defined(call: ArgumentsCall) -> bool:
    """Whether the call's result on CPU is the same whatever unwritten memory holds."""
    first, second = (next(run_each([call], fill)) for fill in FILLS)
    if first.outcome is None or second.outcome is None:
        return False
    if str(first.outcome.error) != str(second.outcome.error):
        return False
    results = [(run.outcome.value, run.arguments) for run in (first, second) if run.outcome]
    return tree_difference(results[0], results[1], CPU) is None


def _serve(calls: Sequence[ArgumentsCall], writer: int, fill: int | None) -> None:
    """The fork's side."""
    signal.alarm(SECONDS)  # locks that a thread of the parent held are never released here
    faulthandler.disable()
    torch.set_num_threads(1)  # a fork has none of the other threads
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what kernels say when they end the process
    if fill is not None:
        ctypes.CDLL(None).mallopt(M_PERTURB, fill)
        # So that tensors come to lie among memory that was filled.
        for _ in range(3):
            blocks = [torch.full((8 << i,), fill, dtype=torch.uint8) for i in [*range(10)] * 64]
            del blocks
    with os.fdopen(writer, "wb") as stream:
        for call in calls:
            signal.alarm(SECONDS)
            own = call.on(CPU)
            outcome = attempt(own.run)
            stream.write(_message(CpuRun(outcome, own.arguments)))
            stream.flush()
    os._exit(0)


def _message(run: CpuRun) -> bytes:
    """As bytes that can be read again; kernels make tensors that cannot."""
    assert run.outcome is not None
    if (error := run.outcome.error) is not None:
        # The arguments do not matter then, and can be of impossible sizes.
        plain = CpuRun(Outcome(error=error, warnings=run.outcome.warnings), {})
        try:
            return _readable(plain)
        except Exception:  # of one that has more than a message
            plain.outcome = Outcome(error=RuntimeError(str(error)))
            return _readable(plain)
    try:
        return _readable(run)
    except Exception as problem:
        return _readable(CpuRun(None, {}, f"what it made cannot be read: {problem}"))


def _readable(run: CpuRun) -> bytes:
    message = pickle.dumps(run)
    pickle.loads(message)
    return message
