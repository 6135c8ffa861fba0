"""CPU memory that the device uses as its own lives as long as streams use it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

import torch_outboard
from tests.support import run_python
from torch_outboard.device import host_memory

pytestmark = [pytest.mark.by_turns(3), pytest.mark.torture]


@pytest.fixture(autouse=True)
def adopting(device: torch.device, shares_memory: bool) -> None:
    if not shares_memory:
        pytest.skip("the device cannot use memory of the host")


def adopted(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return host_memory.from_cpu(torch.from_numpy(values), device)


LIFETIME = """
import gc
import sys
import weakref

import numpy as np
import torch
from torch_outboard.device import host_memory
from torch_outboard.drivers import torture

recorded = "recorded" in sys.argv
device = torch.device("host", 0)
pinned = torch.ones(1 << 18).pin_memory()
elsewhere = torch.empty(1 << 18, device=device)
side = torch.Stream(device)
values = np.ones(1 << 18, dtype=np.float32)
alive = weakref.ref(values)
x = host_memory.from_cpu(torch.from_numpy(values), device)
torture.configure(delay_us=1_000_000)
with side:
    elsewhere.copy_(pinned, non_blocking=True)
if recorded:
    x.record_stream(side)
assert not side.query()
del x, values
gc.collect()
print(alive() is not None, side.query())
side.synchronize()
torture.configure(delay_us=0)
# Whoever uses such memory next lets go of what is done.
host_memory.from_cpu(torch.ones(1), device)
gc.collect()
print(alive() is not None)
"""


def test_a_recorded_stream_keeps_the_memory() -> None:
    printed = run_python(LIFETIME, "recorded", OUTBOARD_TORTURE="count")
    assert printed.split() == ["True", "False", "False"]


def test_other_streams_do_not_keep_it() -> None:
    printed = run_python(LIFETIME, OUTBOARD_TORTURE="count")
    assert printed.split()[0] == "False"


def test_the_stream_of_the_adoption_keeps_the_memory(device: torch.device) -> None:
    values = np.ones(1 << 18, dtype=np.float32)
    alive = weakref.ref(values)
    x = adopted(values, device)
    torch.testing.assert_close(x.sum().item(), float(1 << 18))
    del x, values
    gc.collect()
    torch.accelerator.synchronize()
    host_memory.from_cpu(torch.ones(1), device)
    gc.collect()
    assert alive() is None


WAIT = """
import sys

import numpy as np
import torch
import torch_outboard
from torch_outboard.device import host_memory
from torch_outboard.drivers import torture

device = torch.device("host", 0)
pinned = torch.ones(1 << 18).pin_memory()
target = torch.empty(1 << 18, device=device)


@torch_outboard.kernel(sys.argv[1])
def late(*args, **kwargs):
    target.copy_(pinned, non_blocking=True)
    if sys.argv[2] == "raises":
        raise RuntimeError("after it had begun")
    return torch.empty(6 if sys.argv[1] == "aten::cat" else 3, device=device)


x = torch.ones(3, device=device)
index = torch.zeros(3, dtype=torch.int64)
adopted = host_memory.from_cpu(index, device)
own = index.to(device)
calls = {
    "aten::index.Tensor": lambda i: torch.ops.aten.index(x, [i]),
    "aten::gather": lambda i: torch.gather(x, 0, i),
    "aten::cat": lambda i: torch.cat([x, i]),
}


def call(tensor):
    try:
        calls[sys.argv[1]](tensor)
    except RuntimeError as error:
        assert "after it had begun" in str(error)


# What a kernel returns is looked at more closely, and longer, at the first call.
call(own)
torture.configure(delay_us=100_000)
stream = torch.accelerator.current_stream()
for tensor in (own, adopted):
    stream.synchronize()
    call(tensor)
    print(stream.query())
torture.configure(delay_us=0)
"""


@pytest.mark.parametrize("outcome", ["returns", "raises"])
@pytest.mark.parametrize("operator", ["aten::index.Tensor", "aten::gather", "aten::cat"])
def test_kernels_that_others_brought_are_waited_for(operator: str, outcome: str) -> None:
    """Only where an argument lies in adopted memory, whatever kind of argument it is."""
    printed = run_python(WAIT, operator, outcome, OUTBOARD_TORTURE="count")
    assert printed.split() == ["False", "True"]


def test_statistics_count_it(device: torch.device) -> None:
    module = torch.get_device_module(device)
    gc.collect()
    before = module.memory_allocated()
    x = adopted(np.ones(1 << 18, dtype=np.float32), device)
    assert module.memory_allocated() == before + (1 << 20)
    del x
    gc.collect()
    assert module.memory_allocated() == before
    assert torch_outboard.device_name() == device.type
