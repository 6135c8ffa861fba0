"""CPU memory that the device uses as its own lives as long as streams use it."""

import pytest
import torch

from tests.runtime.memory_checks import run_program

pytestmark = pytest.mark.by_turns(3)


@pytest.fixture(autouse=True)
def adopting(device: torch.device, shares_memory: bool) -> None:
    if not shares_memory:
        pytest.skip("the device cannot use memory of the host")


LIFETIME = """
import weakref
import numpy as np
from torch_outboard.device import host_memory

pinned = torch.ones(1 << 18).pin_memory()
elsewhere = torch.empty(1 << 18, device=device)
side = torch.Stream(device)

def is_alive_while_the_stream_works(recorded):
    values = np.ones(1 << 18, dtype=np.float32)
    alive = weakref.ref(values)
    x = host_memory.from_cpu(torch.from_numpy(values), device)
    faults.configure(delay_us=400_000)
    with side:
        elsewhere.copy_(pinned, non_blocking=True)
    if recorded:
        x.record_stream(side)
    assert not side.query()
    del x, values
    gc.collect()
    lived = alive() is not None
    assert not side.query(), "the work ended too early to tell"
    side.synchronize()
    faults.configure(delay_us=0)
    # The next use of such memory releases finished work.
    host_memory.from_cpu(torch.ones(1), device)
    gc.collect()
    assert alive() is None
    return lived

print(is_alive_while_the_stream_works(True), is_alive_while_the_stream_works(False))
"""


def test_a_recorded_stream_keeps_the_memory() -> None:
    assert run_program(LIFETIME, OUTBOARD_FAULTS="count").split() == ["True", "False"]


WAIT = """
import torch_outboard
from torch_outboard.device import host_memory

pinned = torch.ones(1 << 18).pin_memory()
target = torch.empty(1 << 18, device=device)
x = torch.ones(3, device=device)
index = torch.zeros(3, dtype=torch.int64)
adopted = host_memory.from_cpu(index, device)
own = index.to(device)
stream = torch.accelerator.current_stream()
calls = {
    "aten::index.Tensor": lambda i: torch.ops.aten.index(x, [i]),
    "aten::gather": lambda i: torch.gather(x, 0, i),
    "aten::cat": lambda i: torch.cat([x, i]),
}

for name, use in calls.items():
    for raises in (False, True):

        @torch_outboard.kernel(name)
        def late(*args, **kwargs):
            target.copy_(pinned, non_blocking=True)
            if raises:
                raise RuntimeError("after it had begun")
            return torch.empty(6 if name == "aten::cat" else 3, device=device)

        def call(tensor):
            try:
                use(tensor)
                assert not raises
            except RuntimeError as error:
                assert raises and "after it had begun" in str(error)

        with late:
            # The first call checks a kernel's results more closely, and takes longer.
            call(own)
            faults.configure(delay_us=50_000)
            waited = []
            for tensor in (own, adopted):
                stream.synchronize()
                call(tensor)
                waited.append(stream.query())
            faults.configure(delay_us=0)
            assert waited == [False, True], (name, raises, waited)
"""


def test_kernels_that_others_brought_are_waited_for() -> None:
    """Only where an argument lies in adopted memory, whatever kind of argument it is."""
    run_program(WAIT, OUTBOARD_FAULTS="count")
