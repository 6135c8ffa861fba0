"""Memory that a host kernel allocates has no other user, also with several threads on a stream."""

import pytest

from tests.support import run_python

# A block that another stream uses keeps the allocator asking for its event, which is slow here.
# Meanwhile the other thread fills a block late and frees it at once.
RACE = """
import sys
import threading
import time

import torch
from torch_outboard.drivers import faults

torch.set_num_threads(1)
SIZE = 1 << 18
device = torch.device("host")
calls = {
    "pointwise": (lambda: a + b),
    "scalar": (lambda: a + 1),
    "predicate": (lambda: a.eq(2).logical_not().float() * 3),
    "out": (lambda: torch.add(a, b, out=torch.empty(0, device=device))),
    "aliased": (lambda: torch.nn.functional.gelu(a)),
    "softmax": (lambda: torch.softmax(a.view(512, -1), 1)),
    "native": (lambda: torch.where(mask, a, b)),
    "layer_norm": (lambda: torch.nn.functional.layer_norm(a.view(512, -1), (512,))),
    "pooling": (lambda: torch.nn.functional.max_pool2d(a.view(1, 1, 512, 512), 2)),
    "boxed": (lambda: torch.roll(a, 1)),
}
call = calls[sys.argv[1]]
a = torch.full((SIZE,), 1.0, device=device)
b = torch.full((SIZE,), 2.0, device=device)
mask = a > 0
expected = call().cpu()
pinned = torch.full((SIZE,), 77.0).pin_memory()
torch.host.synchronize()

# Memory that a busy stream uses and no tensor holds.
side = torch.Stream("host")
faults.configure(delay_us=20_000)
lent = torch.empty(64, device=device)
with side:
    for _ in range(100):
        torch.empty(SIZE, device=device).copy_(pinned, non_blocking=True)
    lent.copy_(torch.ones(64).pin_memory(), non_blocking=True)
lent.record_stream(side)
faults.configure(delay_us=3_000, slow={"event_query": 1_000})
del lent

end = time.monotonic() + 1.5

def disturb():
    while time.monotonic() < end:
        late = torch.empty(SIZE, device=device)
        late.copy_(pinned, non_blocking=True)
        del late

other = threading.Thread(target=disturb)
other.start()
results = []
while time.monotonic() < end:
    results.append(call())
    if len(results) == 4:
        time.sleep(0.005)
        assert all(torch.equal(result.cpu(), expected) for result in results)
        results.clear()
other.join()
faults.configure(delay_us=0)
"""


SLOW_CALLS = (
    "out", "aliased", "native", "pooling", "scalar", "predicate", "softmax", "layer_norm",
)  # fmt: skip


@pytest.mark.by_turns(2)
@pytest.mark.parametrize(
    "call",
    ["pointwise", "boxed", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CALLS)],
)
def test_a_thread_that_frees_memory_in_use(call: str) -> None:
    settings = {"OUTBOARD_DRIVER": "host", "OUTBOARD_HOST_ACCESS": "shared"}
    run_python(RACE, call, **settings, OUTBOARD_FAULTS="count")
