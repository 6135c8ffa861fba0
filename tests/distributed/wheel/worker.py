"""A process that runs distributed tests of PyTorch's wheel one by one, as it is told.

    BACKEND=gloo WORLD_SIZE=3 python -m tests.distributed.wheel.worker cpu|device

It reads requests from standard input and answers each with a line of JSON. PyTorch and its tests
are imported once. For each test it forks a process that leads the ranks, which are forked as
well: so a test takes about a second, where it would take many with ranks that import everything.
"""

import json
import os
import select
import signal
import sys
import tempfile
import time
import unittest
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed import distributed_test
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

BARRIER_SECONDS = 60  # ranks share few processors; PyTorch's limit is 10


class OnCPU(TestDistBackend, DistributedTest._DistTestBase):
    """The tests as they are, by Gloo; ranks are forks of this process."""

    def setUp(self) -> None:
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    def _barrier(self, *args: Any, **options: Any) -> None:
        options.setdefault("timeout", BARRIER_SECONDS)
        super()._barrier(*args, **options)


class OnDevice(OnCPU):
    """The same on the device: it is the default device, and the group has a backend for both."""

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, pipe: Any, **_options: Any) -> None:
        import datetime

        import torch_outboard

        # A fork leaves PyTorch a pool of threads that the next who asks for it makes anew. That
        # would be autograd's threads, one for each device; some find none and abort.
        torch.set_num_threads(1)
        self = cls(test_name)
        self.rank = rank
        self.file_name = file_name
        device = torch_outboard.device_name()
        torch.set_default_device(torch.device(device, 0))
        seconds = distributed_test.CUSTOM_PG_TIMEOUT.get(
            test_name, distributed_test.default_pg_timeout
        )
        dist.init_process_group(
            init_method=self.init_method,
            backend=f"cpu:gloo,{device}:outboard",
            world_size=int(self.world_size),
            rank=rank,
            timeout=datetime.timedelta(seconds=seconds),
        )
        self._barrier()
        self.run_test(test_name, pipe)
        self._barrier()
        dist.destroy_process_group()
        sys.exit(0)


SIDES: dict[str, type[OnCPU]] = {"cpu": OnCPU, "device": OnDevice}


def run_test(side: type[OnCPU], name: str) -> dict[str, str]:
    """Status and reason of one test, run in this process and its forks."""
    result = unittest.TestResult()
    side(name).run(result)
    if result.skipped:
        return {"status": "skipped", "reason": result.skipped[0][1]}
    for _, text in result.failures + result.errors:
        return {"status": "failed", "reason": text}
    return {"status": "passed", "reason": ""}


def in_fork(side: type[OnCPU], name: str, timeout: float) -> dict[str, Any]:
    """The same in a separate process, which leaves nothing behind."""
    start = time.monotonic()
    read, write = os.pipe()
    with tempfile.TemporaryFile("w+") as log:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.close(read)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            answer = json.dumps(run_test(side, name)).encode()
            while answer:
                answer = answer[os.write(write, answer) :]
            os._exit(0)
        os.close(write)
        answer = b""
        found: dict[str, Any] = {"status": "timeout", "reason": f"not done after {timeout:.0f} s"}
        while left := max(0.0, start + timeout - time.monotonic()):
            if not select.select([read], [], [], left)[0]:
                break
            part = os.read(read, 1 << 16)
            answer += part
            if not part:
                found = {"status": "crash", "reason": "the process that led the ranks ended"}
                break
        if answer:
            found = json.loads(answer)
        os.close(read)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        log.seek(0)
        output = log.read()
    return {
        "name": name,
        **found,
        "output": output[-20000:] if found["status"] != "passed" else "",
        "seconds": round(time.monotonic() - start, 2),
    }


def main() -> None:
    side = SIDES[sys.argv[1]]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    names = sorted(n for n in dir(DistributedTest._DistTestBase) if n.startswith("test_"))
    print(json.dumps(names), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(in_fork(side, request["name"], request["timeout"])), file=answers)


if __name__ == "__main__":
    main()
